#pragma once
// Picking single elements by indices that are checked some at a time: a branch for each costs more.
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::indexing {

// to[j] = from[at[j] * step]. Stops at or some elements before the first index outside [0, size)
// and returns how many were moved; n when there is none.
template <typename T>
int64_t pick(const T* from, int64_t step, int64_t size, const int64_t* at, int64_t n, T* to) {
  constexpr int64_t kGroup = 8;
  const auto most = static_cast<uint64_t>(size);
  int64_t j = 0;
  for (; j + kGroup <= n; j += kGroup) {
    bool outside = false;
#pragma GCC unroll 8
    for (int64_t k = 0; k < kGroup; ++k) outside |= static_cast<uint64_t>(at[j + k]) >= most;
    if (outside) return j;
#pragma GCC unroll 8
    for (int64_t k = 0; k < kGroup; ++k) to[j + k] = from[at[j + k] * step];
  }
  for (; j < n && static_cast<uint64_t>(at[j]) < most; ++j) to[j] = from[at[j] * step];
  return j;
}

}  // namespace flambeau::indexing
