#pragma once
// Broadcasting step by step, for callers whose error messages name the operands; otherwise see
// broadcast_sizes() in shape.h.
#include "aten/core/tensor.h"

namespace flambeau {

// `sizes` becomes the result of broadcasting with `other`; false, and `sizes` unspecified, where
// they do not broadcast.
bool broadcast_into(DimVector& sizes, IntArrayRef other);

}  // namespace flambeau
