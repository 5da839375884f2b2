#pragma once
// The order of a loop nest's dimensions. A nest has `ndim`, `arrays`, `sizes[d]`, `strides[a][d]`
// and `swap_dims(a, b)`; dimensions count from the innermost.
#include <cstdint>
#include <cstdlib>

#include "c10/core/namespace.h"

namespace flambeau {

// By the strides of the first array that tells.
template <typename Nest>
bool lies_inside(const Nest& nest, int a, int b) {
  for (int array = 0; array < nest.arrays; ++array) {
    const int64_t x = std::abs(nest.strides[array][a]), y = std::abs(nest.strides[array][b]);
    if (x == 0 || y == 0 || x == y) continue;
    return x < y;
  }
  return false;  // undecided: keep the order
}

template <typename Nest>
void sort_dims(Nest& nest) {
  for (int d = 1; d < nest.ndim; ++d) {
    for (int at = d; at > 0 && lies_inside(nest, at, at - 1); --at) nest.swap_dims(at, at - 1);
  }
}

// Joins neighbours that lie gapless in every array; drops dimensions of size 1. Leaves ndim >= 1.
// Arrays have room for one dimension.
template <typename Nest>
void coalesce_dims(Nest& nest) {
  int last = -1;
  for (int d = 0; d < nest.ndim; ++d) {
    if (nest.sizes[d] == 1) continue;
    bool joins = last >= 0;
    for (int a = 0; joins && a < nest.arrays; ++a)
      joins = nest.strides[a][d] == nest.strides[a][last] * nest.sizes[last];
    if (joins) {
      nest.sizes[last] *= nest.sizes[d];
      continue;
    }
    ++last;
    if (last != d) nest.swap_dims(last, d);
  }
  if (last < 0) {
    last = 0;
    nest.sizes[0] = 1;
    for (int a = 0; a < nest.arrays; ++a) nest.strides[a][0] = 0;
  }
  nest.ndim = last + 1;
}

}  // namespace flambeau
