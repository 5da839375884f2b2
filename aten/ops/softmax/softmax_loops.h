#pragma once
// Loops over contiguous rows and over columns side by side, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::softmax {

// Rows of n elements.
using Map = void (*)(int64_t rows, int64_t n, const void* in, void* out);
// From the gradient of the result and the result.
using Backward = void (*)(int64_t rows, int64_t n, const void* grad, const void* result, void* out);

// At most kColumns adjacent columns of n elements, `step` elements from one to the next.
inline constexpr int64_t kColumns = 256;
struct Columns {
  int64_t n, step, width;
};
using ColumnMap = void (*)(const Columns& c, const void* in, void* out);
using ColumnBackward = void (*)(const Columns& c, const void* grad, const void* result, void* out);

struct Loops {
  Map softmax, log_softmax;
  Backward softmax_backward, log_softmax_backward;
  ColumnMap softmax_columns, log_softmax_columns;
  ColumnBackward softmax_backward_columns, log_softmax_backward_columns;
};

}  // namespace flambeau::softmax
