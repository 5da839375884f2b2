#pragma once
// What generated bindings share.
#include <utility>

#include "python/csrc/arg_parser.h"

namespace flambeau::python {

using FastFunction = PyObject*(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
using BinaryFunction = PyObject*(PyObject*, PyObject*);

// Below this many elements an operator is over before another thread could take the GIL.
inline constexpr int64_t kReleaseGilAbove = 20000;

// Whether a class of an operand overrides operators (__torch_function__).
bool may_override(PyObject* o);
template <typename... Operands>
bool is_overridden(Operands*... operands) {
  return ((!is_exact_tensor(operands) && may_override(operands)) || ...);
}
// The call of flambeau.<name>, or Tensor.<name> for one that ends in an underscore, by the
// override.
PyObject* call_overridden(const char* name, PyObject* a, PyObject* b = nullptr);

// A fresh tensor of a factory, as a leaf that wants a gradient if `requires_grad`.
Tensor with_requires_grad(Tensor tensor, bool requires_grad);

// Runs an operator's call; other Python threads run meanwhile if `measure` is large.
template <typename F>
decltype(auto) run(const Tensor& measure, F&& call) {
  const WithoutGil released(measure.defined() && measure.numel() > kReleaseGilAbove);
  return std::forward<F>(call)();
}

}  // namespace flambeau::python
