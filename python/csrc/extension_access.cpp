#include "python/csrc/extension_access.h"

#include "api/python_access.h"
#include "aten/dispatch/defined_operator.h"
#include "aten/dispatch/extension_messages.h"
#include "aten/dispatch/operator_library.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

template <typename Object, typename T>
bool value_of(PyObject* o, PyTypeObject* type, T* out) {
  if (!PyObject_TypeCheck(o, type)) return false;
  *out = reinterpret_cast<Object*>(o)->value;
  return true;
}

bool number_of(PyObject* o, Scalar* out) {
  if (!PyNumber_Check(o) || (is_tensor(o) && tensor_of(o).numel() != 1)) return false;
  *out = scalar_from(o);
  return true;
}
bool generator_in(PyObject* o, Generator* out) {
  GeneratorImpl* const found = generator_from(o);
  if (found) *out = Generator::share(found);
  return found != nullptr;
}

const api::PythonAccess access = {
    api::PythonAccess::kVersion,
    is_tensor,
    tensor_of,
    [](Tensor tensor) { return wrap(std::move(tensor)); },
    scalar_type_from,
    device_from,
    [](PyObject* o, Layout* out) { return value_of<LayoutObject>(o, layout_type, out); },
    memory_format_from,
    number_of,
    generator_in,
    [](ScalarType value) { return wrap(value); },
    wrap_device,
    wrap_layout,
    wrap_memory_format,
    [](const Scalar& value) { return wrap(value); },
    wrap_generator,
    [] { set_python_error(); },
};

// A warning that Python makes an error of passes through the C++ code that warns.
void warn_in_python(const std::string& message) {
  const WithGil gil;
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) carried(nullptr);
}

// _defined_operators(): (name, schema, keys with kernels) of each operator of TORCH_LIBRARY.
PyObject* operators(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Ref list = Ref::checked(PyList_New(0));
    for (const DefinedOperator* op : defined_operators()) {
      const Ref item = Ref::checked(Py_BuildValue("(ss)", op->name, op->schema));
      checked(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}

// _library_schemas(): the schemas of all operators of libraries, "mylib::swish(Tensor self) ->
// ...".
PyObject* library_schemas(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Ref list = Ref::checked(PyList_New(0));
    for (const OperatorEntry* op : library_operators()) {
      const Ref schema = Ref::checked(PyUnicode_FromString(op->schema));
      checked(PyList_Append(list.get(), schema.get()));
    }
    return list.release();
  });
}

// _take_library_errors(): what went wrong in blocks of TORCH_LIBRARY since the last call.
PyObject* library_errors(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(take_library_errors().c_str()); });
}

PyMethodDef functions[] = {{"_take_library_errors", library_errors, METH_NOARGS, nullptr},
                           {"_defined_operators", operators, METH_NOARGS, nullptr},
                           {"_library_schemas", library_schemas, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_extension_access(PyObject* module) {
  void* const table = const_cast<api::PythonAccess*>(&access);
  const Ref capsule = Ref::checked(PyCapsule_New(table, api::PythonAccess::kName, nullptr));
  checked(PyModule_AddObjectRef(module, "_extension_access", capsule.get()));
  checked(PyModule_AddFunctions(module, functions));
  set_warning_handler(warn_in_python);
}

}  // namespace flambeau::python
