#pragma once
// Calls of operators through their objects in Python: `ops.<namespace>.<name>.<overload>` and the
// definitions of `flambeau.library`. Plain calls need no Python code but the kernel; all others go
// to the object's method `_call_slowly`.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// _C._DefinedOperator, an operator whose kernels are in Python, and _C._OperatorHandle, what calls
// one or an operator of the dispatcher.
void add_operator_call(PyObject* module);

}  // namespace flambeau::python
