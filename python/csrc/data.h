#pragma once
// Data in and out of tensors: nested Python data, NumPy's array interface, buffers, DLPack.
#include <optional>

#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// A tensor from numbers, nested sequences, tensors or arrays; always a copy. Undefined dtype:
// inferred as PyTorch does (bool, int64, default float, default complex).
Tensor tensor_from_data(PyObject* data, ScalarType dtype, Device device);

// The thread's device for results of calls without tensors and without a device; none: the CPU.
std::optional<Device> default_device();
void set_default_device(std::optional<Device> device);

// Adds tensor(), the functions of shared memory below and questions about storages to the module.
void add_tensor_functions(PyObject* module);

// Foreign code sees the memory of a storage: until this goes, the memory lives and stays in its
// place, whatever happens to the tensors over it.
class SharedMemory {
 public:
  explicit SharedMemory(Storage storage);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

 private:
  Storage storage_;
};

// Methods of Tensor.
PyObject* array_interface(PyObject* self, PyObject*);
PyObject* to_dlpack(PyObject* self, PyObject* args);
PyObject* dlpack_device(PyObject* self, PyObject*);
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

// Functions of the module, shared memory: from_array_interface(array),
// from_dlpack_capsule(capsule), from_buffer(object, dtype, count, offset).
PyObject* from_array_interface(PyObject*, PyObject* array);
PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule);
PyObject* from_buffer(PyObject*, PyObject* args);
// Bytes of a file, which processes that map it share. The descriptor may be closed afterwards.
Tensor map_file(int descriptor, int64_t offset, int64_t count);
// This process ends when the one with this number does.
void end_with_process(int64_t number);

// The memory of an array as a tensor, and the dtype of an array or a scalar of NumPy. TypeError
// for a dtype, ValueError for strides or a byte order that tensors do not have.
Tensor tensor_over_array(PyObject* array);
ScalarType dtype_of_numpy(PyObject* object);
// A tensor over memory that `release(context)` gives back once the storage dies, or at once where
// this fails.
Tensor tensor_over(void* data, IntArrayRef sizes, IntArrayRef strides, ScalarType dtype,
                   void (*release)(void*), void* context);

}  // namespace flambeau::python
