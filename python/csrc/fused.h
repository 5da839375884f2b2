#pragma once
#include <Python.h>

namespace flambeau::python {

// Adds _C._FusedRecorder and _C._FusedGroup, which run several pointwise operators block by block
// (aten/cpu/fused.h), _C._operator_facts and _C._operator_slices.
void add_fused(PyObject* module);

}  // namespace flambeau::python
