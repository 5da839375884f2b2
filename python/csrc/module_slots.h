#pragma once
#include <Python.h>

namespace flambeau::python {

// Adds _C._use_module_slots: attributes and calls of nn.Module answered in C.
void add_module_slots(PyObject* module);

}  // namespace flambeau::python
