#pragma once
// Function transforms: entry points of the module.
#include "python/csrc/object.h"

namespace flambeau::python {

void add_transforms(PyObject* module);
// RuntimeError inside of a transform: a pass that fills .grad has no meaning there.
void refuse_backward_in_transforms();

}  // namespace flambeau::python
