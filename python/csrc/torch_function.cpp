#include "python/csrc/torch_function.h"

#include <algorithm>
#include <cstring>

#include "aten/autograd/variable.h"
#include "python/csrc/generated.h"

namespace flambeau::python {
namespace {

thread_local constinit int disabled_depth = 0;
PyObject* disabled_impl;

PyObject* method_name() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

// A class's own override, borrowed; null for plain tensors and for classes that switched it off.
PyObject* override_of(PyTypeObject* type) {
  if (type == tensor_type || type == &PyFloat_Type || type == &PyLong_Type ||
      type == &PyUnicode_Type || type == &PyTuple_Type || type == &PyList_Type ||
      type == &PyBool_Type) {
    return nullptr;
  }
  PyObject* found = _PyType_Lookup(type, method_name());
  return found == disabled_impl || found == Py_None ? nullptr : found;
}

void collect(PyObject* o, std::vector<PyObject*>* overriding) {
  if (!overrides(o)) return;
  const auto same_type = [&](PyObject* other) { return Py_TYPE(other) == Py_TYPE(o); };
  if (std::any_of(overriding->begin(), overriding->end(), same_type)) return;
  const auto base = std::find_if(overriding->begin(), overriding->end(), [&](PyObject* other) {
    return PyType_IsSubtype(Py_TYPE(o), Py_TYPE(other));
  });
  overriding->insert(base, o);
}
void collect_items(PyObject* o, std::vector<PyObject*>* overriding) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return collect(o, overriding);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    collect(PySequence_Fast_GET_ITEM(o, i), overriding);
}

Ref public_function(const PublicName& name) {
  if (name.is_method) {
    return Ref::checked(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name.name));
  }
  const Ref module =
      Ref::checked(PyImport_ImportModule((std::string("flambeau._C.") + name.module).c_str()));
  return Ref::checked(PyObject_GetAttrString(module.get(), name.name));
}

PyObject* disabled_torch_function(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject *function, *types, *inner_args;
  PyObject* inner_kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OOO|O", &function, &types, &inner_args, &inner_kwargs))
    return nullptr;
  ++disabled_depth;
  PyObject* result = PyObject_Call(function, inner_args, inner_kwargs ? inner_kwargs : kwargs);
  --disabled_depth;
  return result;
}
PyObject* enter_disabled(PyObject*, PyObject*) {
  ++disabled_depth;
  Py_RETURN_NONE;
}
PyObject* exit_disabled(PyObject*, PyObject*) {
  --disabled_depth;
  Py_RETURN_NONE;
}
PyMethodDef functions[] = {
    {"_disabled_torch_function_impl",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(disabled_torch_function)),
     METH_VARARGS | METH_KEYWORDS, "The __torch_function__ of classes that do not want one."},
    {"_enter_disabled_torch_function", enter_disabled, METH_NOARGS, nullptr},
    {"_exit_disabled_torch_function", exit_disabled, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool overrides(PyObject* o) { return override_of(Py_TYPE(o)) && disabled_depth == 0; }

bool holds_override(PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return overrides(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (overrides(PySequence_Fast_GET_ITEM(o, i))) return true;
  }
  return false;
}

PyObject* call_override(const PublicName& name, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  std::vector<PyObject*> overriding;
  for (Py_ssize_t i = 0; i < nargs + keywords; ++i) collect_items(args[i], &overriding);
  const Ref function = public_function(name);
  const Ref types = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(overriding.size())));
  for (size_t i = 0; i < overriding.size(); ++i) {
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i), Py_NewRef(Py_TYPE(overriding[i])));
  }
  const Ref positional = Ref::checked(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  const Ref named = Ref::checked(PyDict_New());
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    checked(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]));
  }
  for (PyObject* o : overriding) {
    const Ref method = Ref::checked(PyObject_GetAttr(o, method_name()));
    Ref result = Ref::checked(PyObject_CallFunctionObjArgs(
        method.get(), function.get(), types.get(), positional.get(), named.get(), nullptr));
    if (result.get() != Py_NotImplemented) return result.release();
  }
  PyErr_Format(PyExc_TypeError,
               "no implementation found for '%s': __torch_function__ of %R returned NotImplemented",
               name.name, types.get());
  throw PythonError();
}

bool may_override(PyObject* o) { return overrides(o); }

PyObject* call_overridden(const char* name, PyObject* a, PyObject* b) {
  PyObject* const args[] = {a, b};
  const bool inplace = name[std::strlen(name) - 1] == '_';
  return call_override({name, inplace, "_functions"}, args, b ? 2 : 1, nullptr);
}

Tensor with_requires_grad(Tensor tensor, bool requires_grad) {
  if (requires_grad) {
    check(is_differentiable_type(tensor.dtype()),
          "only Tensors of floating point dtypes, or complex ones, require gradients");
    autograd::set_requires_grad(tensor, true);
  }
  return tensor;
}

void add_torch_function(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  disabled_impl = Ref::checked(PyObject_GetAttrString(module, functions[0].ml_name)).release();
}

}  // namespace flambeau::python
