#pragma once
// The binding of autograd: methods of Tensor (autograd_methods, autograd_getset in tensor_type.h)
// and functions of the module.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// Adds the autograd functions and types to the module.
void add_autograd(PyObject* module);
// A new tensor over the same storage, with the same place in the graph (an identity node if
// needed).
Tensor alias_with_history(const Tensor& t);

}  // namespace flambeau::python
