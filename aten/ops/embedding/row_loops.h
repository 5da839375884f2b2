#pragma once
// Sums of rows of a matrix that are named by indices, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::embedding {

// Rows of `width` elements lie `stride` elements apart; `scale` has a number for each of the n rows
// named, or is null. All but the indices are of the loop's type.
struct RowLoops {
  // sum[j] += scale[i] * rows[index[i]][j] over all i < n
  void (*gather)(int64_t n, int64_t width, const void* rows, int64_t stride, const int64_t* index,
                 const void* scale, void* sum);
  // sums[target[i]][j] += scale[i] * rows[index[i]][j] for one i after the other
  void (*scatter)(int64_t n, int64_t width, const void* rows, int64_t stride, const int64_t* index,
                  const int64_t* target, const void* scale, void* sums, int64_t sums_stride);
};

}  // namespace flambeau::embedding
