#pragma once
// The order of a tensor's dimensions in memory, which results keep.
#include "aten/core/tensor.h"

namespace flambeau {

// Strides of a dense tensor in the memory order of `self`: its own where it is dense itself. Empty
// when that is row-major.
DimVector preserved_strides(const Tensor& self);

// Whether channels are innermost and the batch outermost in memory, gaps or not: the format that
// operators on images keep. Tensors of 4 and 5 dimensions only.
bool is_channels_last_ordered(const Tensor& self);

}  // namespace flambeau
