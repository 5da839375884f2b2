#pragma once
// Tensors without an operator call: used by kernels, drivers and generated wrappers.
#include <optional>

#include "aten/core/tensor.h"

namespace flambeau {

// Uninitialised, row-major.
Tensor empty_tensor(IntArrayRef sizes, ScalarType dtype, Device device = DeviceType::CPU);
Tensor empty_strided_tensor(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype,
                            Device device);
// Keeps the strides of a dense tensor (memory format "preserve"), else row-major.
Tensor empty_like_tensor(const Tensor& self);
Tensor empty_like_tensor(const Tensor& self, ScalarType dtype);
Tensor zeros_tensor(IntArrayRef sizes, ScalarType dtype, Device device = DeviceType::CPU);
// 0-dim tensor holding `value`.
Tensor scalar_tensor(const Scalar& value, ScalarType dtype, Device device = DeviceType::CPU);
// The same, marked as a wrapped number for promotion.
Tensor wrapped_number_tensor(const Scalar& value);

// Row-major copy, or the tensor itself when it is row-major already. No autograd.
Tensor contiguous_tensor(const Tensor& self);
Tensor contiguous_tensor(const Tensor& self, MemoryFormat format);
// A copy in another dtype (the tensor itself when equal). No autograd.
Tensor cast_tensor(const Tensor& self, ScalarType dtype);
// self <- source with broadcasting and casting; either may be strided, overlap between the two is
// handled by a temporary. No autograd, no version bump.
void copy_into(const Tensor& self, const Tensor& source);
void fill_with(const Tensor& self, const Scalar& value);
// The value of a one-element tensor.
Scalar item_of(const Tensor& self);

}  // namespace flambeau
