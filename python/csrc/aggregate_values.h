#pragma once
// Tuples and dictionaries of C++ as those of Python. Arguments are copied: a kernel that changes a
// dictionary does not change the caller's.
#include "aten/dispatch/aggregates.h"
#include "aten/dispatch/defined_operator.h"
#include "python/csrc/boxed_schema.h"

namespace flambeau::python {

// False if the value does not fit the type, as schemas spell it.
bool aggregate_from(PyObject* o, std::string_view type, IValue* out);
// A new tuple or dict; null without an error for another object.
Ref wrap_aggregate(const CustomObject& object);

}  // namespace flambeau::python
