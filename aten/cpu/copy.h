#pragma once
// Copies from geometries that a tensor cannot have.
#include "aten/core/tensor.h"

namespace flambeau {

// self <- elements of self's dtype at `source`, laid out by strides (in elements, also negative) of
// self's shape. The two must not overlap.
void copy_strided(const Tensor& self, const void* source, IntArrayRef strides);

}  // namespace flambeau
