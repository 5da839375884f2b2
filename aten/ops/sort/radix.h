#pragma once
// Radix sort, least digit first. Stable.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "aten/cpu/parallel.h"
#include "c10/core/interrupt.h"

namespace flambeau::sorting {

// What entries that tell their key are sorted by.
struct OwnKey {
  template <typename Entry>
  uint64_t operator()(const Entry& e) const {
    return e.key();
  }
};

// Sorts n entries by key(entry) of `key_bits` bits; returns where they end up, `entries` or
// `scratch`.
template <int kDigitBits, typename Entry, typename Key = OwnKey>
Entry* radix_sort(int64_t n, int key_bits, Entry* entries, Entry* scratch, const Key& key = {}) {
  constexpr int64_t kBuckets = int64_t{1} << kDigitBits;
  constexpr int kMaxPasses = (64 + kDigitBits - 1) / kDigitBits;
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  const auto counts = std::make_unique<int64_t[]>(static_cast<size_t>(kMaxPasses * kBuckets));
  const auto digit = [&key](const Entry& e, int pass) {
    return static_cast<int64_t>(key(e) >> (pass * kDigitBits)) & (kBuckets - 1);
  };
  in_pieces(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int p = 0; p < passes; ++p)
        ++counts[static_cast<size_t>(p * kBuckets + digit(entries[i], p))];
    }
  });
  for (int p = 0; p < passes; ++p) {
    int64_t* count = counts.get() + p * kBuckets;
    if (count[digit(entries[0], p)] == n) continue;  // all alike in this digit
    int64_t sum = 0;
    for (int64_t b = 0; b < kBuckets; ++b) sum += std::exchange(count[b], sum);
    in_pieces(n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) scratch[count[digit(entries[i], p)]++] = entries[i];
    });
    std::swap(entries, scratch);
  }
  return entries;
}

// The same by `parts` threads. Each counts the digits of its part, and writes behind those of the
// parts before.
template <int kDigitBits, typename Entry, typename Key>
Entry* parallel_radix_sort(int64_t n, int key_bits, Entry* entries, Entry* scratch, const Key& key,
                           int parts) {
  constexpr int64_t kBuckets = int64_t{1} << kDigitBits;
  const auto counts = std::make_unique<int64_t[]>(static_cast<size_t>(parts * kBuckets));
  for (int shift = 0; shift < key_bits; shift += kDigitBits) {
    const auto digit = [&key, shift](const Entry& e) {
      return static_cast<int64_t>(key(e) >> shift) & (kBuckets - 1);
    };
    const auto each_part = [&](const auto& body) {
      parallel_for(0, parts, 2 * kSerialCost, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p)
          body(counts.get() + p * kBuckets, n * p / parts, n * (p + 1) / parts);
      });
    };
    each_part([&](int64_t* count, int64_t begin, int64_t end) {
      std::fill_n(count, kBuckets, int64_t{0});
      for (int64_t i = begin; i < end; ++i) ++count[digit(entries[i])];
    });
    int64_t sum = 0;  // of entries before a bucket
    bool alike = false;
    for (int64_t b = 0; b < kBuckets; ++b) {
      const int64_t before = sum;
      for (int64_t p = 0; p < parts; ++p)
        sum += std::exchange(counts[static_cast<size_t>(p * kBuckets + b)], sum);
      alike |= sum - before == n;
    }
    if (alike) continue;  // all entries in this digit
    each_part([&](int64_t* count, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) scratch[count[digit(entries[i])]++] = entries[i];
    });
    std::swap(entries, scratch);
  }
  return entries;
}

}  // namespace flambeau::sorting
