#include "python/csrc/default_override.h"

#include "python/csrc/autograd.h"
#include "python/csrc/tensor_type.h"
#include "python/csrc/torch_function.h"

namespace flambeau::python {
namespace {

PyObject* default_method;  // the classmethod of Tensor, which calls `default_override`
PyObject* not_converted;   // a tuple of functions whose results keep their class

Ref converted(PyObject* result, PyTypeObject* type);

Ref converted_items(PyObject* result, PyTypeObject* type) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(result);
  Ref items = Ref::checked(PyList_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyList_SET_ITEM(items.get(), i, converted(PySequence_Fast_GET_ITEM(result, i), type).release());
  }
  return items;
}

// Operators with several results return classes of tuples that are made of one sequence.
bool is_result_tuple(PyObject* o) {
  static PyObject* const field = PyUnicode_InternFromString("n_sequence_fields");
  return PyTuple_Check(o) && _PyType_Lookup(Py_TYPE(o), field);
}

// `result` with the class for its plain tensors, also in lists, tuples and result tuples.
Ref converted(PyObject* result, PyTypeObject* type) {
  if (is_tensor(result)) {
    if (PyObject_TypeCheck(result, type)) return Ref::share(result);
    return Ref::checked(wrap_as(type, alias_with_history(tensor_of(result))));
  }
  if (PyList_CheckExact(result)) return converted_items(result, type);
  if (PyTuple_CheckExact(result))
    return Ref::checked(PyList_AsTuple(converted_items(result, type).get()));
  if (!is_result_tuple(result)) return Ref::share(result);
  return Ref::checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(result)),
                                          converted_items(result, type).get()));
}

bool keeps_class(PyObject* function) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(not_converted); ++i) {
    PyObject* const other = PyTuple_GET_ITEM(not_converted, i);
    if (Py_TYPE(function) == Py_TYPE(other) &&
        checked(PyObject_RichCompareBool(function, other, Py_EQ)))
      return true;
  }
  return false;
}

bool is_subclass_of_all(PyObject* type, PyObject* types) {
  const Ref items = Ref::checked(PySequence_Fast(types, "__torch_function__: expected classes"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* const other = PySequence_Fast_GET_ITEM(items.get(), i);
    if (type != other && !checked(PyObject_IsSubclass(type, other))) return false;
  }
  return true;
}

// _default_torch_function(cls, func, types, args, kwargs)
PyObject* default_of_python(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    check_type(count == 5 && PyType_Check(args[0]),
               "__torch_function__: expected a class, a function, classes and arguments, got ",
               count, " values");
    const Ref positional = Ref::checked(PySequence_Tuple(args[3]));
    PyObject* const named = args[4] == Py_None ? nullptr : args[4];
    check_type(!named || PyDict_Check(named), "__torch_function__: expected a dict as kwargs, got ",
               named ? Py_TYPE(named)->tp_name : "None");
    return default_override(reinterpret_cast<PyTypeObject*>(args[0]), args[1], args[2],
                            positional.get(), named)
        .release();
  });
}

// _set_default_torch_function(classmethod, functions whose results keep their class)
PyObject* set_default(PyObject*, PyObject* args) {
  PyObject *method, *functions;
  if (!PyArg_ParseTuple(args, "OO!", &method, &PyTuple_Type, &functions)) return nullptr;
  Py_XSETREF(default_method, Py_NewRef(method));
  Py_XSETREF(not_converted, Py_NewRef(functions));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_default_torch_function",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(default_of_python)), METH_FASTCALL,
     nullptr},
    {"_set_default_torch_function", set_default, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool takes_default_override(PyObject* o, PyObject* found) {
  if (!default_method || found != default_method || !is_tensor(o)) return false;
  PyObject* const* const own = _PyObject_GetDictPtr(o);
  return !own || !*own || PyDict_GET_SIZE(*own) == 0;
}

Ref default_override(PyTypeObject* type, PyObject* function, PyObject* types, PyObject* args,
                     PyObject* kwargs) {
  if (!is_subclass_of_all(reinterpret_cast<PyObject*>(type), types))
    return Ref::share(Py_NotImplemented);
  const WithoutSubclasses plain;
  Ref result = Ref::checked(PyObject_Call(function, args, kwargs));
  if (type == tensor_type || keeps_class(function)) return result;
  return converted(result.get(), type);
}

void add_default_override(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
