#pragma once
// Function transforms, as the rest of the binding uses them.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// The tensor whose memory contains the elements of `object`: below all wrappers of gradient layers
// and of functional tensors. The storage objects of wrappers only borrow that memory, which may be
// released through another wrapper.
const Tensor& readable(PyObject* object);
const Tensor& readable(const Tensor& t);
// RuntimeError inside of a transform: a pass that fills .grad has no meaning there.
void refuse_backward_in_transforms();

}  // namespace flambeau::python
