#pragma once
// _C._*privateuse1*: the name, the generators and the fallback of the out-of-tree device.
#include "python/csrc/object.h"

namespace flambeau::python {

void add_private_device(PyObject* module);

}  // namespace flambeau::python
