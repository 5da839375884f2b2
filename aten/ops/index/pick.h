#pragma once
// Picking single elements by indices that are checked a block at a time, while they are in L1.
#include <algorithm>
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::indexing {

// to[j] = from[at[j] * step]. Stops at the first block with an index outside [0, size) and returns
// where that block begins; n when there is none.
template <typename T>
int64_t pick(const T* from, int64_t step, int64_t size, const int64_t* at, int64_t n, T* to) {
  constexpr int64_t kChecked = 64;
  for (int64_t begin = 0; begin < n; begin += kChecked) {
    const int64_t end = std::min(n, begin + kChecked);
    uint64_t outside = 0;  // its sign bit: whether one is
#pragma omp simd reduction(| : outside)
    for (int64_t j = begin; j < end; ++j) {
      const auto i = static_cast<uint64_t>(at[j]);
      outside |= i | (static_cast<uint64_t>(size) - 1 - i);
    }
    if (outside >> 63) return begin;
    if (step == 1) {
      for (int64_t j = begin; j < end; ++j) to[j] = from[at[j]];
    } else {
      for (int64_t j = begin; j < end; ++j) to[j] = from[at[j] * step];
    }
  }
  return n;
}

}  // namespace flambeau::indexing
