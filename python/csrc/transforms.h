#pragma once
// Function transforms: entry points of the module.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// The tensor whose memory holds the elements of `object`: below all wrappers of gradient layers.
// Their storage objects only borrow that memory, which another one of them may have let go.
const Tensor& readable(PyObject* object);
void add_transforms(PyObject* module);
// RuntimeError inside of a transform: a pass that fills .grad has no meaning there.
void refuse_backward_in_transforms();

}  // namespace flambeau::python
