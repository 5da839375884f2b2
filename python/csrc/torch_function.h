#pragma once
// __torch_function__: classes and modes that take over the calls of public functions.
//
// A call is offered to the innermost mode of the thread, then to the arguments whose class has a
// __torch_function__, subclasses before their bases; the first answer that is not NotImplemented is
// the result. Generated functions ask `takes_over` in the argument parser, the number protocol in
// `is_overridden`; members of Tensor and functions written in Python go through guards
// (overridable_members.cpp, overridable_function.cpp).
#include "python/csrc/arg_parser.h"

namespace flambeau::python {

// Whether `o` has a __torch_function__ that is not switched off.
bool overrides(PyObject* o);
// The same of the items of a list or tuple, or of `o` itself.
bool holds_override(PyObject* o);
// Whether any of the arguments of a call does.
bool any_overrides(PyObject* const* args, Py_ssize_t count);
// Whether a call in which an override or a mode was found is really handed to it: not the one call
// that `redispatch_function` wants to reach the function itself.
bool is_handed_over();

// How many modes this thread has.
size_t mode_count();

// Shared by __torch_function__ and __torch_dispatch__.
// Adds `o` unless an object of its class is there: subclasses before their bases, else in order.
void add_by_class(PyObject* o, std::vector<PyObject*>& objects);
// The classes of the objects as a tuple.
Ref types_of(const std::vector<PyObject*>& objects);
// Calls the function that such a method received: (function, types, args, kwargs).
PyObject* call_as_given(PyObject* args, PyObject* kwargs);

// Within the scope, classes of arguments do not take over calls; modes do.
class WithoutSubclasses {
 public:
  WithoutSubclasses();
  ~WithoutSubclasses();
  WithoutSubclasses(const WithoutSubclasses&) = delete;
  WithoutSubclasses& operator=(const WithoutSubclasses&) = delete;

 private:
  uint8_t outer_;
};

// Which public function is being called: what an override receives as its first argument.
struct PublicName {
  const char* name;
  bool is_method = false;          // of Tensor
  const char* module = nullptr;    // the submodule of _C of a function
  const char* accessor = nullptr;  // of a property: "__get__", "__set__", "__delete__"
};
// The result of the overrides. Throws PythonError (TypeError) when all returned NotImplemented.
PyObject* call_override(const PublicName& name, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames);

// A method or property of Tensor as an override receives it.
Ref public_member(const PublicName& name);

// Guards around the members of Tensor that are written by hand (overridable_members.cpp).
PyType_Slot guarded_slot(PyType_Slot slot);
PyGetSetDef guarded_property(PyGetSetDef* original);
void guard_methods(PyMethodDef* table, std::vector<PyMethodDef>* out);

// _C functions: the state, the stack of modes, questions, and calls of overrides.
void add_torch_function(PyObject* module);
// The type of public functions written in Python, and _C._overridable, which makes them.
void add_overridable_function(PyObject* module);

}  // namespace flambeau::python
