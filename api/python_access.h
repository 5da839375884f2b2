#pragma once
// The way of extensions to Python objects of the binding: a table that flambeau._C holds in a
// capsule. Extensions link against libraries that know nothing of Python.
#include <Python.h>

#include "aten/core/tensor.h"

namespace flambeau::api {

struct PythonAccess {
  static constexpr const char* kName = "flambeau._C._extension_access";
  static constexpr uint32_t kVersion = 1;

  uint32_t version;
  bool (*is_tensor)(PyObject* o);
  const flambeau::Tensor& (*tensor)(PyObject* o);  // of a tensor
  PyObject* (*wrap_tensor)(flambeau::Tensor tensor);
  // False if the object is of another type.
  bool (*dtype)(PyObject* o, c10::ScalarType* out);
  bool (*device)(PyObject* o, c10::Device* out);
  bool (*layout)(PyObject* o, c10::Layout* out);
  bool (*memory_format)(PyObject* o, c10::MemoryFormat* out);
  bool (*number)(PyObject* o, c10::Scalar* out);
  bool (*generator)(PyObject* o, c10::Generator* out);
  // New references.
  PyObject* (*wrap_dtype)(c10::ScalarType value);
  PyObject* (*wrap_device)(c10::Device value);
  PyObject* (*wrap_layout)(c10::Layout value);
  PyObject* (*wrap_memory_format)(c10::MemoryFormat value);
  PyObject* (*wrap_number)(const c10::Scalar& value);
  PyObject* (*wrap_generator)(c10::Generator value);
  // Turns the exception in flight into a Python error.
  void (*set_error)();
};

}  // namespace flambeau::api
