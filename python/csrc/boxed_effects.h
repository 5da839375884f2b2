#pragma once
// What a boxed call does to its tensors, as far as C++ must watch it when Python computes the
// results.
#include <algorithm>

#include "aten/autograd/variable.h"
#include "aten/dispatch/operator_traits.h"
#include "python/csrc/boxed_schema.h"

namespace flambeau::python {

template <typename F>
void visit_tensors(const IValue& value, F&& visit) {
  if (value.is_tensor()) visit(value.tensor());
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value.payload())) {
    for (const Tensor& t : *list) visit(t);
  }
}
template <typename F>
void for_each_tensor(const Stack& stack, F&& visit) {
  for (size_t i = 0; i < stack.size(); ++i) visit_tensors(stack[i], visit);
}

inline bool takes_tensor(const OperatorTraits& traits) {
  return std::ranges::any_of(traits.arguments, [](const ArgumentTraits& a) {
    return a.kind == ArgumentKind::Tensor && !a.is_mutable;
  });
}

// A composite that is not recorded itself: Python meets the operators that it is made of, but not
// those that write to tensors of the composite's own, or make views for its copies. A factory after
// a tensor, such as new_zeros, is not: its parts no longer know the tensor's class. It has no
// kernel for autograd, unless it draws random numbers.
inline bool is_transparent(const OperatorEntry& op) {
  if (!op.traits || !op.traits->is_composite || op.traits->is_whole) return false;
  const void* const recording = op.kernel_at(static_cast<int>(DispatchKey::Autograd));
  if (!recording && op.traits->is_factory && takes_tensor(*op.traits)) return false;
  return !recording || recording == op.kernel_at(static_cast<int>(DispatchKey::CPU));
}

// Increments the versions of the arguments that the operator writes to: Python writes to other
// memory.
class WriteCounts {
 public:
  WriteCounts(const Stack& stack, const BoxedSchema& schema) {
    for (size_t i = 0; i < schema.is_mutable.size(); ++i) {
      if (schema.is_mutable[i]) visit_tensors(stack[i], [&](const Tensor& t) { add(t); });
    }
  }
  void raise() const {
    for (const auto& [tensor, version] : before_) {
      if (tensor.impl()->version() == version) tensor.impl()->bump_version();
    }
  }

 private:
  void add(const Tensor& t) {
    if (t.defined()) before_.emplace_back(t, t.impl()->version());
  }
  std::vector<std::pair<Tensor, uint32_t>> before_;
};

// Autograd writes the history of a result into it, which must not be an argument or have a history
// already. A view of a tensor with a history has none of its own yet.
class FreshResults {
 public:
  explicit FreshResults(const Stack& arguments) {
    if (!thread_state.grad_enabled) return;
    for_each_tensor(arguments, [&](const Tensor& t) {
      if (t.defined() && t.keys().has(DispatchKey::Autograd)) recorded_.push_back(t);
    });
  }
  // `who` returned the results.
  void check_all(const Stack& results, const OperatorEntry& op, const char* who) const {
    if (recorded_.empty()) return;
    for_each_tensor(results, [&](const Tensor& t) {
      const bool is_argument =
          std::any_of(recorded_.begin(), recorded_.end(),
                      [&](const Tensor& argument) { return argument.impl() == t.impl(); });
      check(!t.defined() || !(is_argument || has_history(t)), op.name, ": expected ", who,
            " to return a new tensor, got ",
            is_argument ? "an argument that requires gradients" : "one that requires gradients");
    });
  }

 private:
  static bool has_history(const Tensor& t) {
    const autograd::AutogradMeta* meta = autograd::meta_of(t);
    return meta && (meta->grad_fn || meta->requires_grad);
  }
  std::vector<Tensor> recorded_;
};

}  // namespace flambeau::python
