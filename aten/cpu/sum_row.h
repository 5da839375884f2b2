#pragma once
// Sums of short contiguous rows for kernels that are compiled once, for every instruction set.
#include <cstdint>

namespace flambeau {

// In several chains, as one would wait for each of its additions.
template <typename Acc, typename T>
Acc sum_row(const T* row, int64_t n) {
  constexpr int64_t kChains = 8;
  Acc sums[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= n; i += kChains) {
    for (int64_t c = 0; c < kChains; ++c) sums[c] += Acc(row[i + c]);
  }
  for (; i < n; ++i) sums[0] += Acc(row[i]);
  for (int64_t c = 1; c < kChains; ++c) sums[0] += sums[c];
  return sums[0];
}

}  // namespace flambeau
