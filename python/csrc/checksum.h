#pragma once
// _C._crc32, where the CPU has the instructions that make it faster than zlib's.
#include "python/csrc/object.h"

namespace flambeau::python {

void add_checksum(PyObject* module);

}  // namespace flambeau::python
