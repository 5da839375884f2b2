#pragma once
// How messages show a tensor, by dtype and shape: `check(fits, "mm: expected ..., got ", self)`
// prints "float32[2, 3]", and "None" for an absent one. The tensor itself is passed, so that text
// is made on failure only.
#include "aten/core/tensor.h"

namespace flambeau {

void append_text(std::string& out, const Tensor& t);

}  // namespace flambeau
