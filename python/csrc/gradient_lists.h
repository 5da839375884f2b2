#pragma once
#include <Python.h>

namespace flambeau::python {

// Adds _C._with_gradients: the parameters that an optimizer moves, with their gradients.
void add_gradient_lists(PyObject* module);

}  // namespace flambeau::python
