#include "python/csrc/numpy_types.h"

namespace flambeau::python {
namespace {

// A class of NumPy, found after NumPy is imported; before that, no object is an instance. The GIL
// guards the cache; classes live as long as the process.
class NumpyClass {
 public:
  constexpr explicit NumpyClass(const char* name) : name_(name) {}
  bool has(PyObject* o) {
    if (!type_ && !find()) return false;
    return PyObject_TypeCheck(o, type_);
  }

 private:
  const char* name_;
  PyTypeObject* type_ = nullptr;

  bool find() {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
    if (!module) return false;
    PyObject* found = PyObject_GetAttrString(module, name_);
    if (!found) PyErr_Clear();  // half imported
    if (found && PyType_Check(found)) type_ = reinterpret_cast<PyTypeObject*>(found);
    return type_ != nullptr;
  }
};

constinit NumpyClass ndarray("ndarray");
constinit NumpyClass generic("generic");
constinit NumpyClass number("number");
constinit NumpyClass truth_value("bool_");
constinit NumpyClass duration("timedelta64");

// Objects of Python's own types are the usual case, and no class of NumPy is one of them.
bool is_builtin(PyObject* o) {
  const PyTypeObject* type = Py_TYPE(o);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
         type == &PyList_Type || type == &PyTuple_Type || type == &PyUnicode_Type;
}

}  // namespace

bool is_ndarray(PyObject* o) { return !is_builtin(o) && ndarray.has(o); }
bool is_numpy_scalar(PyObject* o) { return !is_builtin(o) && generic.has(o); }
bool is_numpy_number(PyObject* o) {
  // timedelta64 derives from the signed integers.
  return is_numpy_scalar(o) && ((number.has(o) && !duration.has(o)) || truth_value.has(o));
}
bool is_numpy_truth_value(PyObject* o) { return !is_builtin(o) && truth_value.has(o); }

}  // namespace flambeau::python
