#pragma once
// Function transforms: entry points of the module.
#include "python/csrc/object.h"

namespace flambeau::python {

void add_transforms(PyObject* module);

}  // namespace flambeau::python
