#pragma once
// NumPy's types, recognised without linking to NumPy and without importing it.
#include "python/csrc/object.h"

namespace flambeau::python {

bool is_ndarray(PyObject* o);       // or of a subclass
bool is_numpy_scalar(PyObject* o);  // of any kind: a number, text, a date
bool is_numpy_number(PyObject* o);  // bool, integer, floating or complex
bool is_numpy_truth_value(PyObject* o);

}  // namespace flambeau::python
