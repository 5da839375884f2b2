#pragma once
// What generated bindings share.
#include <utility>

#include "python/csrc/arg_parser.h"

namespace flambeau::python {

using FastFunction = PyObject*(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
using BinaryFunction = PyObject*(PyObject*, PyObject*);

// Below this many elements an operator is over before another thread could take the GIL.
inline constexpr int64_t kReleaseGilAbove = 20000;

// Runs an operator's call; other Python threads run meanwhile if `measure` is large.
template <typename F>
decltype(auto) run(const Tensor& measure, F&& call) {
  const WithoutGil released(measure.defined() && measure.numel() > kReleaseGilAbove);
  return std::forward<F>(call)();
}

}  // namespace flambeau::python
