#pragma once
// The order of a tensor's dimensions in memory, which results keep.
#include "aten/core/out_spec.h"
#include "aten/core/tensor.h"

namespace flambeau {

// Strides of a dense tensor in the memory order of `self`: its own where it is dense itself. Empty
// when that is row-major.
DimVector preserved_strides(const Tensor& self);

// Whether channels are innermost and the batch outermost in memory, gaps or not: the format that
// operators on images keep. Tensors of 4 and 5 dimensions only.
bool is_channels_last_ordered(const Tensor& self);
// The same as a format: ChannelsLast, ChannelsLast3d, or else Contiguous.
MemoryFormat memory_format_of(const Tensor& self);

// Dense strides of `sizes` in the memory order of operands that broadcast to them: of two
// dimensions the first operand that has steps along both says which is inside. Empty when that is
// row-major.
DimVector strides_in_order_of(ArrayRef<Tensor> operands, IntArrayRef sizes);

// Lays `out` out as channels last where `model` is and both have as many dimensions.
void keep_format(const Tensor& model, OutSpec* out);
// Dense and in the format of `format_model`: `self`, or a copy. Strides are exactly those of the
// format, also along dimensions of size 1. No autograd.
Tensor dense_in_format_of(const Tensor& self, const Tensor& format_model);
// `self`, which is channels last, with its dimensions in the order of memory: (n, c, x...) as
// (n, x..., c).
Tensor channels_to_back(const Tensor& self);
// Where `dim` is among them.
int64_t dim_with_channels_at_back(int64_t dim, int64_t ndim);

}  // namespace flambeau
