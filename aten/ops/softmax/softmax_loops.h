#pragma once
// Loops over contiguous rows, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::softmax {

struct Loops {
  void (*softmax)(int64_t rows, int64_t n, const void* in, void* out);
  void (*log_softmax)(int64_t rows, int64_t n, const void* in, void* out);
};

}  // namespace flambeau::softmax
