#pragma once
// Loops over contiguous rows, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::softmax {

struct Loops {
  void (*softmax)(int64_t rows, int64_t n, const void* in, void* out);
  void (*log_softmax)(int64_t rows, int64_t n, const void* in, void* out);
  // From the gradient of the result and the result.
  void (*softmax_backward)(int64_t rows, int64_t n, const void* grad, const void* result,
                           void* out);
  void (*log_softmax_backward)(int64_t rows, int64_t n, const void* grad, const void* result,
                               void* out);
};

}  // namespace flambeau::softmax
