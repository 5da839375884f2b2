#pragma once
// What the rest of the binding asks of function transforms.
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// The tensor whose memory holds the elements of `object`: below all wrappers of
// gradient layers and of functional tensors. Their storage objects only borrow that memory, which
// another one of them may have let go.
const Tensor& readable(PyObject* object);
const Tensor& readable(const Tensor& t);
// RuntimeError inside of a transform: a pass that fills .grad has no meaning there.
void refuse_backward_in_transforms();

}  // namespace flambeau::python
