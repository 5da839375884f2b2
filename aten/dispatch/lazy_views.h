#pragma once
// Conjugate and negative views, whose elements are the conjugates or negatives of what memory
// holds.
#include "aten/core/tensor.h"

namespace flambeau {

inline bool is_lazy(const Tensor& t) { return t.defined() && !(t.keys() & kLazyKeys).empty(); }
// A copy of such a view whose memory holds the elements, else the tensor itself. No autograd.
Tensor resolved(const Tensor& t);

}  // namespace flambeau
