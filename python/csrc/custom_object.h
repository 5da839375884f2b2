#pragma once
// Objects of the classes that libraries in C++ register, as objects of Python.
#include "aten/dispatch/stack.h"
#include "python/csrc/object.h"

namespace flambeau::python {

// Of the class `flambeau.ScriptObject`, which is written in Python.
PyObject* wrap_custom_object(const CustomObject& object);
bool is_custom_object(PyObject* o);
// Of such an object.
CustomObject custom_object_of(PyObject* o);

// Adds the base class, and the functions by which Python calls methods.
void add_custom_objects(PyObject* module);

}  // namespace flambeau::python
