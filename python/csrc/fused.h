#pragma once
#include <Python.h>

namespace flambeau::python {

void add_fused(PyObject* module);

}  // namespace flambeau::python
