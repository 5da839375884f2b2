#pragma once
#include "aten/core/tensor.h"

namespace flambeau {

// Dense strides of a format that a caller names; empty for Contiguous. RuntimeError "required rank
// 4 tensor to use channels_last format" where sizes have another number of dimensions.
DimVector strides_of_format(IntArrayRef sizes, MemoryFormat format);

}  // namespace flambeau
