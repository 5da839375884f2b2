#pragma once
// x[index] and x[index] = value.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

}  // namespace flambeau::python
