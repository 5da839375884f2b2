#pragma once
// Data in and out of tensors: nested Python data, NumPy's array interface, buffers, DLPack.
#include <optional>

#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// A tensor from numbers, nested sequences, tensors or arrays; always a copy. Undefined dtype:
// inferred as PyTorch does (bool, int64, default float, default complex).
Tensor tensor_from_data(PyObject* data, ScalarType dtype, Device device);

// The thread's device of what is made without tensors and without a device; none: the CPU.
std::optional<Device> default_device();
void set_default_device(std::optional<Device> device);

// Methods of Tensor.
PyObject* array_interface(PyObject* self, PyObject*);
PyObject* to_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
PyObject* dlpack_device(PyObject* self, PyObject*);
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

// Functions of the module, shared memory: from_array_interface(array),
// from_dlpack_capsule(capsule), from_buffer(object, dtype, count, offset).
PyObject* from_array_interface(PyObject*, PyObject* array);
PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule);
PyObject* from_buffer(PyObject*, PyObject* args);

}  // namespace flambeau::python
