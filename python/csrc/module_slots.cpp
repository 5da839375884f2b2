// What every call of a layer runs: _C._use_module_slots(cls, getattr, call, hooks) lets C answer
// `module.name` and `module(...)` for a class whose __getattr__ and __call__ are Module's own.
//
// Python's slot for a class with __getattr__ first builds an AttributeError and then calls the
// function, once for each parameter that forward reads. The slots here give the same answers; what
// is out of the ordinary (hooks, missing names, tables that are not plain dicts) goes to the
// functions of the class. Assigning __getattr__ or __call__ to a class makes Python put its own
// slots back, there and in subclasses, so that a replacement takes effect.
#include "python/csrc/module_slots.h"

#include "python/csrc/generated.h"
#include "python/csrc/profiling.h"

namespace flambeau::python {
namespace {

struct Names {
  PyObject* getattr = PyUnicode_InternFromString("__getattr__");
  PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* call = PyUnicode_InternFromString("__call__");
  PyObject* forward = PyUnicode_InternFromString("forward");
  PyObject* compiled = PyUnicode_InternFromString("_compiled_call_impl");
  PyObject* members[3] = {PyUnicode_InternFromString("_parameters"),
                          PyUnicode_InternFromString("_buffers"),
                          PyUnicode_InternFromString("_modules")};
  PyObject* hooks[4] = {PyUnicode_InternFromString("_forward_hooks"),
                        PyUnicode_InternFromString("_forward_pre_hooks"),
                        PyUnicode_InternFromString("_backward_hooks"),
                        PyUnicode_InternFromString("_backward_pre_hooks")};
};
const Names& names() {
  static const Names made;
  return made;
}

PyObject* hooks_of_all_modules;  // a dict; alive as long as the process

PyObject* of_class(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), name);
}

// The attribute as `object` finds it, or null; without an error if there is none.
PyObject* plain_attribute(PyObject* self, PyObject* name) {
#if PY_VERSION_HEX < 0x030D0000
  return _PyObject_GenericGetAttrWithDict(self, name, nullptr, /*suppress=*/1);
#else
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
#endif
}

// The parameter, buffer or submodule, or null. Only tables that look names up as dicts do are read.
PyObject* member(PyObject* self, PyObject* name) {
  const Ref state = Ref::checked(PyObject_GenericGetDict(self, nullptr));
  for (PyObject* table : names().members) {
    PyObject* entries = PyDict_GetItemWithError(state.get(), table);
    if (!entries && PyErr_Occurred()) throw PythonError();
    if (!entries) continue;
    if (!PyDict_CheckExact(entries) && !PyODict_CheckExact(entries)) return nullptr;
    if (PyObject* found = PyDict_GetItemWithError(entries, name)) return Py_NewRef(found);
    if (PyErr_Occurred()) throw PythonError();
  }
  return nullptr;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* found = plain_attribute(self, name);
  if (found || PyErr_Occurred()) return found;
  return guarded([&]() -> PyObject* {
    if (PyObject* entry = member(self, name)) return entry;
    const Ref function = Ref::checked(of_class(self, names().getattr));
    return PyObject_CallFunctionObjArgs(function.get(), self, name, nullptr);
  });
}

// Whether a call is more than a call of forward: hooks, or what Module.compile made.
bool has_hooks(PyObject* self) {
  if (PyDict_GET_SIZE(hooks_of_all_modules) != 0) return true;
  const Ref state = Ref::checked(PyObject_GenericGetDict(self, nullptr));
  if (PyDict_GetItemWithError(state.get(), names().compiled)) return true;
  if (PyErr_Occurred()) throw PythonError();
  for (PyObject* name : names().hooks) {
    PyObject* table = PyDict_GetItemWithError(state.get(), name);
    if (!table && PyErr_Occurred()) throw PythonError();
    if (!table || !PyDict_Check(table) || PyDict_GET_SIZE(table) != 0) return true;
  }
  return false;
}

PyObject* call_module(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const ModuleScope scope(self);
    if (!has_hooks(self)) {
      const Ref forward = Ref::checked(PyObject_GetAttr(self, names().forward));
      return PyObject_Call(forward.get(), args, kwargs);
    }
    const Ref function = Ref::checked(of_class(self, names().call));
    const Ref method = Ref::checked(PyMethod_New(function.get(), self));
    return PyObject_Call(method.get(), args, kwargs);
  });
}

bool finds(PyObject* cls, PyObject* name, PyObject* expected) {
  return Ref::checked(PyObject_GetAttr(cls, name)).get() == expected;
}

// For the class and the classes below it, as far as they find the given functions.
void use_slots(PyObject* cls, PyObject* getattr, PyObject* call) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  const Ref plain = Ref::checked(
      PyObject_GetAttr(reinterpret_cast<PyObject*>(&PyBaseObject_Type), names().getattribute));
  if (finds(cls, names().getattr, getattr) && finds(cls, names().getattribute, plain.get()))
    type->tp_getattro = get_attribute;
  if (finds(cls, names().call, call)) type->tp_call = call_module;
  PyType_Modified(type);
  const Ref below = Ref::checked(PyObject_CallMethod(cls, "__subclasses__", nullptr));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i)
    use_slots(PyList_GET_ITEM(below.get(), i), getattr, call);
}

// _use_module_slots(cls, getattr, call, hooks)
PyObject* use_module_slots(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *getattr, *call, *hooks;
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyType_Type, &cls, &getattr, &call, &PyDict_Type,
                          &hooks))
      return nullptr;
    const bool has_state =
        PyType_HasFeature(reinterpret_cast<PyTypeObject*>(cls), Py_TPFLAGS_HEAPTYPE);
    check_type(has_state,
               "_use_module_slots: expected a class written in Python, got a built-in one");
    Py_XSETREF(hooks_of_all_modules, Py_NewRef(hooks));
    use_slots(cls, getattr, call);
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"_use_module_slots", use_module_slots, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_module_slots(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
