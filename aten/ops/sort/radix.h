#pragma once
// Radix sort, least digit first, of entries that tell their key. Stable.
#include <cstdint>
#include <memory>
#include <utility>

#include "c10/core/namespace.h"

namespace flambeau::sorting {

// Sorts n entries by keys of `key_bits` bits; returns where they end up, `entries` or `scratch`.
template <int kDigitBits, typename Entry>
Entry* radix_sort(int64_t n, int key_bits, Entry* entries, Entry* scratch) {
  constexpr int64_t kBuckets = int64_t{1} << kDigitBits;
  constexpr int kMaxPasses = (64 + kDigitBits - 1) / kDigitBits;
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  const auto counts = std::make_unique<int64_t[]>(static_cast<size_t>(kMaxPasses * kBuckets));
  const auto digit = [](const Entry& e, int pass) {
    return static_cast<int64_t>(e.key() >> (pass * kDigitBits)) & (kBuckets - 1);
  };
  for (int64_t i = 0; i < n; ++i) {
    for (int p = 0; p < passes; ++p)
      ++counts[static_cast<size_t>(p * kBuckets + digit(entries[i], p))];
  }
  for (int p = 0; p < passes; ++p) {
    int64_t* count = counts.get() + p * kBuckets;
    if (count[digit(entries[0], p)] == n) continue;  // all alike in this digit
    int64_t sum = 0;
    for (int64_t b = 0; b < kBuckets; ++b) sum += std::exchange(count[b], sum);
    for (int64_t i = 0; i < n; ++i) scratch[count[digit(entries[i], p)]++] = entries[i];
    std::swap(entries, scratch);
  }
  return entries;
}

}  // namespace flambeau::sorting
