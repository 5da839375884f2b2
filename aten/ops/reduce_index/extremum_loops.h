#pragma once
// Loops that find the place of an extremum, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::extremum {

// Most columns that one call of `columns` takes.
inline constexpr int64_t kMaxColumns = 256;

// Of each pair the first seeks the smallest element, the second the largest.
struct Loops {
  // The first place of the extremum in n > 0 contiguous elements.
  int64_t (*row[2])(int64_t n, const void* in);
  // at[j]: the first place of the extremum among in[i * stride + j] for i < n.
  void (*columns[2])(int64_t n, int64_t stride, int64_t columns, const void* in, int64_t* at);
};

}  // namespace flambeau::extremum
