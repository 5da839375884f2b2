// C++ exceptions as Python errors.
#include <new>

#include "c10/core/check.h"
#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

PyObject* linalg_error = nullptr;

PyObject* type_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Index:
      return PyExc_IndexError;
    case ErrorKind::Type:
      return PyExc_TypeError;
    case ErrorKind::Value:
      return PyExc_ValueError;
    case ErrorKind::NotImplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::ZeroDivision:
      return PyExc_ZeroDivisionError;
    case ErrorKind::LinearAlgebra:
      return linalg_error ? linalg_error : PyExc_RuntimeError;
    case ErrorKind::Assertion:
      return PyExc_AssertionError;
    case ErrorKind::ModuleNotFound:
      return PyExc_ModuleNotFoundError;
    case ErrorKind::Runtime:
    case ErrorKind::OutOfMemory:
      return PyExc_RuntimeError;
  }
  return PyExc_RuntimeError;
}

}  // namespace

void add_errors(PyObject* module) {
  linalg_error = PyErr_NewExceptionWithDoc(
      "flambeau.linalg.LinAlgError",
      "A matrix is singular, is not positive-definite, or an iteration did not converge.",
      PyExc_RuntimeError, nullptr);
  if (!linalg_error || PyModule_AddObjectRef(module, "_LinAlgError", linalg_error) < 0)
    throw PythonError();
}

struct CarriedError::Parts {
  PyObject *type, *value, *traceback;
  Parts() { PyErr_Fetch(&type, &value, &traceback); }
  ~Parts() {
    if (!Py_IsInitialized()) return;
    const WithGil gil;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
};

CarriedError::CarriedError() : parts_(std::make_shared<Parts>()) {}

void CarriedError::restore() const noexcept {
  PyErr_Restore(Py_XNewRef(parts_->type), Py_XNewRef(parts_->value), Py_XNewRef(parts_->traceback));
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (const CarriedError& error) {
    error.restore();
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "flambeau: an error was lost");
  } catch (const Error& error) {
    PyErr_SetString(type_for(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "flambeau: an unknown C++ exception");
  }
}

}  // namespace flambeau::python
