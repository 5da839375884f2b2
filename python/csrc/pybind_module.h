#pragma once
// What pybind11 binds: see pybind_module.cpp.
#include "python/csrc/object.h"

namespace flambeau::python {

// Adds the functions and the class Generator to the module.
void add_pybind_module(PyObject* module);

}  // namespace flambeau::python
