#pragma once
// The operators that the engine itself calls, each differentiable, so that double backward works.
#include <optional>

#include "aten/core/view.h"

namespace flambeau::autograd::operators {

Tensor add(const Tensor& a, const Tensor& b);
void add_inplace(Tensor& a, const Tensor& b);
Tensor sum_dims(const Tensor& t, IntArrayRef dims, bool keepdim);
Tensor clone(const Tensor& t);
Tensor clone_contiguous(const Tensor& t);
Tensor ones_like(const Tensor& t);
// The same memory under another object, for tensors that Python answers for.
Tensor detached_in_python(const Tensor& t);
Tensor as_strided(const Tensor& t, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset);
// Views whose elements are the conjugates or negatives of those of `t`.
Tensor conj_view(const Tensor& t);
Tensor neg_view(const Tensor& t);
Tensor view_as_real(const Tensor& t);
Tensor view_as_complex(const Tensor& t);
void copy_inplace(Tensor& self, const Tensor& source);
Tensor to_dtype(const Tensor& t, ScalarType dtype);
// Zeros of dtype and device of `like`, and of its transforms: batched if `like` is.
Tensor zeros_strided(const Tensor& like, IntArrayRef sizes, IntArrayRef strides);
bool has_nan(const Tensor& t);

}  // namespace flambeau::autograd::operators
