#pragma once
// Members of tensors that the class of a wrapper answers by __torch_dispatch__.
//
// `_make_wrapper_subclass` chooses the questions. The class is asked as for an operator, with the
// calls that PyTorch makes: ops.aten.sym_size.default, ops.prim.device.default and others. None as
// an answer stands for the tensor's own sizes, strides, order of elements and offset.
#include <optional>

#include "python/csrc/tensor_type.h"

namespace flambeau::python {

enum Question : uint8_t {
  kAskSizes = 1,  // also dim, numel and storage_offset
  kAskStrides = 2,
  kAskDevice = 4,
  kAskLayout = 8
};

inline bool is_asked(PyObject* self, Question question) {
  return (reinterpret_cast<TensorObject*>(self)->questions & question) != 0;
}

// The answers; each fails with RuntimeError where the class returns another type.
std::vector<int64_t> asked_sizes(PyObject* self);
int64_t asked_size(PyObject* self, int64_t dim);  // asks for the dimension too
std::vector<int64_t> asked_strides(PyObject* self);
int64_t asked_dim(PyObject* self);
int64_t asked_numel(PyObject* self, bool is_symbolic);
int64_t asked_storage_offset(PyObject* self);
bool asked_is_contiguous(PyObject* self, std::optional<MemoryFormat> format);
Device asked_device(PyObject* self);
Layout asked_layout(PyObject* self);

// _C._ask_class(tensor, bits of Question).
void add_wrapper_questions(PyObject* module);

}  // namespace flambeau::python
