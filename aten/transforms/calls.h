#pragma once
// What transforms ask about a boxed call.
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/operator_traits.h"

namespace flambeau::transforms {

// Calls f(tensor) for every defined tensor of a value.
template <typename F>
void tensors_of(IValue& value, const F& f) {
  if (value.is_tensor()) {
    if (Tensor& t = value.get<Tensor>(); t.defined()) f(t);
  } else if (std::holds_alternative<std::vector<Tensor>>(value.payload())) {
    for (Tensor& t : value.get<std::vector<Tensor>>()) {
      if (t.defined()) f(t);
    }
  }
}

// Calls f(tensor, position) for every defined tensor on the stack.
template <typename F>
void each_tensor(Stack& stack, const F& f) {
  for (size_t i = 0; i < stack.size(); ++i)
    tensors_of(stack[i], [&](Tensor& t) { f(t, static_cast<int>(i)); });
}

// A composite has one kernel for all keys, autograd's among them.
inline void* composite_kernel(const OperatorEntry& op) {
  void* const kernel = op.kernel_at(static_cast<int>(DispatchKey::Autograd));
  const bool is_boxed = kernel == op.boxing_adapter;  // kernels from outside say nothing of others
  return !is_boxed && kernel == op.kernel_at(static_cast<int>(DispatchKey::CPU)) ? kernel : nullptr;
}

inline bool is_changed(const OperatorEntry& op, int position) {
  const auto i = static_cast<size_t>(position);
  return op.traits && i < op.traits->arguments.size() && op.traits->arguments[i].is_mutable;
}

// The argument that a result is a view of; -1: none.
inline int viewed_argument(const OperatorEntry& op, int result) {
  const auto i = static_cast<size_t>(result);
  if (!op.traits || i >= op.traits->results.size()) return -1;
  return op.traits->results[i].is_self ? -1 : op.traits->results[i].alias;
}

// An ordinary tensor that no Python object stands for was made by C++ code within this call.
inline bool is_internal(const Tensor& t) {
  return !t.impl()->py_slot().object && !t.impl()->autograd_meta();
}

}  // namespace flambeau::transforms
