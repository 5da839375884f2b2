#pragma once
// Sums and maxima of rows of a matrix that are named by indices, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::embedding {

// Row index[i] of a matrix of `width` columns, times scale[i] where there are such, belongs to the
// bag target[i]; i < count, targets ascend and are less than `bags`. Of the loop's type all but the
// indices.
struct Bags {
  int64_t count, width, bags;
  const void* rows;
  const int64_t *index, *target;
  const void* scale;
  void* sums;
};

// Rows of `width` elements lie `stride` elements apart; `scale` has a number for each of the n rows
// named, or is null. All but the indices are of the loop's type. `known` >= n indices may be read:
// rows that the next call wants are asked for early.
struct RowLoops {
  // The sums of the bags whose first row is one of begin <= i < end, and zeros for bags before them
  // that have no row; those behind the last row's come with end = count.
  void (*bags)(const Bags& bags, int64_t begin, int64_t end);
  // sum[j] += scale[i] * rows[index[i]][j] over all i < n
  void (*gather)(int64_t n, int64_t known, int64_t width, const void* rows, int64_t stride,
                 const int64_t* index, const void* scale, void* sum);
  // sums[target[i]][j] += scale[i] * rows[index[i]][j] for one i after the other
  void (*scatter)(int64_t n, int64_t width, const void* rows, int64_t stride, const int64_t* index,
                  const int64_t* target, const void* scale, void* sums, int64_t sums_stride);
  // max[j]: the first of rows[index[i]][j] that no later one exceeds; at[j]: first + i, an integer
  // of the loop type's size. Goes on from what both hold unless first is 0.
  void (*maxima)(int64_t n, int64_t known, int64_t width, const void* rows, int64_t stride,
                 const int64_t* index, int64_t first, void* max, void* at);
};

}  // namespace flambeau::embedding
