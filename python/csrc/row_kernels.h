#pragma once
#include <Python.h>

namespace flambeau::python {

// Adds _C._run_row_kernel (aten/cpu/row_loop.h) and _C._fold_of, which names the functions of a
// reduction in generated kernels.
void add_row_kernels(PyObject* module);

}  // namespace flambeau::python
