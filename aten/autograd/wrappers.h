#pragma once
// What generated nodes and wrappers share: values kept for backward, absent gradients, tangents.
#include <string>

#include "aten/autograd/operators.h"
#include "aten/autograd/saved_fields.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "aten/core/host_expr.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau::autograd {

// The key that a wrapper leaves out of everything it calls.
inline constexpr DispatchKeySet kAutogradKey{DispatchKey::Autograd};

// RuntimeError: out= cannot be recorded.
[[noreturn]] void refuse_out(const char* op);
// RuntimeError at the point where a formula that does not exist would be needed.
[[noreturn]] void refuse_gradient(const char* op, const char* argument);
// NotImplementedError: the operator has no forward-mode rule.
[[noreturn]] void refuse_forward_mode(const char* op);

// --- saved values -------------------------------------------------------------------------------

std::vector<SavedTensor> save_list(TensorList list, bool are_outputs = false);
std::vector<Tensor> unpack_list(const std::vector<SavedTensor>& saved, Node& owner);
void reset_list(std::vector<SavedTensor>& saved);

// Copies of arguments that refer to memory of the caller.
template <typename T>
T keep(const T& value) {
  return value;
}
inline DimVector keep(IntArrayRef list) { return list; }
inline std::optional<DimVector> keep(const std::optional<IntArrayRef>& list) {
  return list ? std::optional<DimVector>(keep(*list)) : std::nullopt;
}
inline std::vector<Scalar> keep(ArrayRef<Scalar> list) { return list.vec(); }
inline SmallVector<double, 5> keep(ArrayRef<double> list) { return list; }
inline SmallVector<bool, 5> keep(ArrayRef<bool> list) { return list; }
inline std::string keep(std::string_view text) { return std::string(text); }
inline std::optional<std::string> keep(const std::optional<std::string_view>& text) {
  return text ? std::optional<std::string>(*text) : std::nullopt;
}
// The copies as the arguments that operators take.
inline std::optional<IntArrayRef> view_of(const std::optional<DimVector>& list) {
  return list ? std::optional<IntArrayRef>(*list) : std::nullopt;
}
inline std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

// --- gradients ----------------------------------------------------------------------------------

// Gradient `i`, as zeros where none arrived.
Tensor grad_or_zeros(const Node& node, const Gradients& grads, size_t i);
std::vector<Tensor> grads_or_zeros(const Node& node, const Gradients& grads);
inline bool any_defined(const Gradients& grads) {
  for (const Tensor& t : grads) {
    if (t.defined()) return true;
  }
  return false;
}
inline bool wants_any(const Node& node, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (node.should_compute(i)) return true;
  }
  return false;
}

// --- forward mode -------------------------------------------------------------------------------

// a + b, where an undefined `a` is zero.
Tensor add_tangents(const Tensor& a, const Tensor& b);
// The tangent with the sizes and dtype of the result that it belongs to.
Tensor fitted_tangent(const Tensor& tangent, const Tensor& result);
// Primals of a list.
std::vector<Tensor> primal_list(TensorList list);

}  // namespace flambeau::autograd
