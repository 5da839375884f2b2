#pragma once
// The __torch_function__ of Tensor, which subclasses inherit: run the function on the arguments as
// plain tensors and give its results the subclass.
#include "python/csrc/object.h"

namespace flambeau::python {

// Whether the __torch_function__ of `o` is that of Tensor; `found` is what its class has.
bool takes_default_override(PyObject* o, PyObject* found);
// NotImplemented unless `type` is a subclass of all `types`. `kwargs` may be null.
Ref default_override(PyTypeObject* type, PyObject* function, PyObject* types, PyObject* args,
                     PyObject* kwargs);

// _C functions: the method for Python, and the registration of the classmethod.
void add_default_override(PyObject* module);

}  // namespace flambeau::python
