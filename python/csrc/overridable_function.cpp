// Public functions that are written in Python: _C._overridable(function) is called like the
// function and has its attributes, but offers the call to modes and overriding arguments first.
// A C type, since a wrapper in Python costs more than the functions that it wraps.
#include <Python.h>
#include <structmember.h>

#include "python/csrc/generated.h"
#include "python/csrc/torch_function.h"

namespace flambeau::python {
namespace {

struct FunctionObject {
  PyObject_HEAD PyObject* function;
  PyObject* attributes;  // __dict__: what functools.update_wrapper copies, and __wrapped__
  PyObject* weak_references;
  PyObject* handler;  // called with (this object, args, kwargs) when an override was found
  bool only_modes;
  vectorcallfunc vectorcall;
};
PyTypeObject* function_type;

FunctionObject* object_of(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

PyObject* call_handler(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    const Ref positional = Ref::checked(PyTuple_New(nargs));
    for (Py_ssize_t i = 0; i < nargs; ++i)
      PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
    const Ref named = Ref::checked(PyDict_New());
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
      checked(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]));
    return Ref::checked(PyObject_CallFunctionObjArgs(object_of(self)->handler, self,
                                                     positional.get(), named.get(), nullptr))
        .release();
  });
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* kwnames) {
  const Py_ssize_t nargs = PyVectorcall_NARGS(flags);
  const FunctionObject* object = object_of(self);
  const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const bool found = mode_in_force() || (!object->only_modes && any_overrides(args, count));
  if (found && is_handed_over()) return call_handler(self, args, nargs, kwnames);
  if (!object->only_modes) return PyObject_Vectorcall(object->function, args, flags, kwnames);
  const WithoutSubclasses plain;  // tensors are data to such a function
  return PyObject_Vectorcall(object->function, args, flags, kwnames);
}

// _overridable(function, handler, only_modes)
PyObject* make(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *handler;
    int only_modes;
    if (!PyArg_ParseTuple(args, "OOp", &function, &handler, &only_modes)) return nullptr;
    check_type(PyCallable_Check(function), "_overridable: expected a function, got ",
               Py_TYPE(function)->tp_name);
    const Ref made = Ref::checked(function_type->tp_alloc(function_type, 0));
    FunctionObject* object = object_of(made.get());
    object->function = Py_NewRef(function);
    object->handler = Py_NewRef(handler);
    object->only_modes = only_modes != 0;
    object->vectorcall = call;
    return Py_NewRef(made.get());
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object_of(self)->function);
  Py_VISIT(object_of(self)->attributes);
  Py_VISIT(object_of(self)->handler);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(object_of(self)->attributes);
  Py_CLEAR(object_of(self)->function);
  Py_CLEAR(object_of(self)->handler);
  return 0;
}
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (object_of(self)->weak_references) PyObject_ClearWeakRefs(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// What the object does not have itself (__code__, __defaults__, ...) is the function's.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(object_of(self)->function, name);
}
PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}
PyObject* show(PyObject* self) { return PyObject_Repr(object_of(self)->function); }
// Found again by its name, as functions are.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak_references), READONLY,
     nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, attributes), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

PyMethodDef functions[] = {{"_overridable", make, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_overridable_function(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                         {Py_tp_dealloc, slot(dealloc)},
                         {Py_tp_traverse, slot(traverse)},
                         {Py_tp_clear, slot(clear)},
                         {Py_tp_getattro, slot(get_attribute)},
                         {Py_tp_descr_get, slot(bind)},
                         {Py_tp_repr, slot(show)},
                         {Py_tp_members, members},
                         {Py_tp_getset, getset},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                             Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  PyType_Spec spec = {"flambeau.OverridableFunction", sizeof(FunctionObject), 0, flags, slots};
  function_type = reinterpret_cast<PyTypeObject*>(Ref::checked(PyType_FromSpec(&spec)).release());
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
