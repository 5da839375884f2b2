#pragma once
// What generated bindings share.
#include <utility>

#include "python/csrc/arg_parser.h"

namespace flambeau::python {

using FastFunction = PyObject*(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
using BinaryFunction = PyObject*(PyObject*, PyObject*);

// Below this many elements an operator is over before another thread could take the GIL.
inline constexpr int64_t kReleaseGilAbove = 20000;

// How many modes are entered, in all threads; the GIL guards it.
extern int modes_entered;
bool mode_sees_calls();
// Whether a mode of this thread sees the calls of public functions.
inline bool mode_in_force() { return modes_entered != 0 && mode_sees_calls(); }

// Whether a mode, or a class of an operand, takes the call over (__torch_function__).
bool may_override(PyObject* o);
bool is_handed_over();
template <typename... Operands>
bool is_overridden(Operands*... operands) {
  return (mode_in_force() || ((!is_exact_tensor(operands) && may_override(operands)) || ...)) &&
         is_handed_over();
}
// The methods of Tensor that an override of an infix operator receives. reflected: where the left
// operand is not a tensor; the operands are swapped.
struct InfixNames {
  const char* forward;
  const char* reflected;
};
// The override's result, or NotImplemented.
PyObject* call_overridden(const InfixNames& names, PyObject* a, PyObject* b = nullptr);

// A fresh tensor of a factory, as a leaf that wants a gradient if `requires_grad`.
Tensor with_requires_grad(Tensor tensor, bool requires_grad);

// Runs an operator's call; other Python threads run meanwhile if `measure` is large.
template <typename F>
decltype(auto) run(const Tensor& measure, F&& call) {
  const WithoutGil released(measure.defined() && measure.numel() > kReleaseGilAbove);
  return std::forward<F>(call)();
}

}  // namespace flambeau::python
