#pragma once
#include "python/csrc/object.h"

namespace flambeau::python {

// Adds what extensions in C++ reach: the capsule with their table, and the operators that they
// define.
void add_extension_access(PyObject* module);

}  // namespace flambeau::python
