#pragma once
// Sums for loop files, which are compiled once per instruction set.
#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

// sum of map(i) over i < n: in T within blocks, in float64 over them.
template <typename T, typename Map>
[[gnu::always_inline]] inline double total(int64_t n, const Map& map) {
  constexpr int64_t kBlock = 4096;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    const int64_t quarter = count / 4;
    T a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = begin; i < begin + quarter; ++i) {
      a += map(i);
      b += map(i + quarter);
      c += map(i + 2 * quarter);
      d += map(i + 3 * quarter);
    }
    for (int64_t i = begin + 4 * quarter; i < begin + count; ++i) a += map(i);
    sum += (static_cast<double>(a) + b) + (static_cast<double>(c) + d);
  }
  return sum;
}

// wide[j] = sum of row(i)(j) over i < n, for j < width: in T within runs of rows, which `part` of
// `width` elements holds, and in Wide over them.
template <typename T, typename Wide, typename Row>
[[gnu::always_inline]] inline void total_columns(int64_t n, int64_t width, T* part, Wide* wide,
                                                 const Row& row) {
  constexpr int64_t kRun = 32;
  for (int64_t j = 0; j < width; ++j) wide[j] = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = n - begin < kRun ? n : begin + kRun;
    const auto first = row(begin);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) part[j] = first(j);
    for (int64_t i = begin + 1; i < end; ++i) {
      const auto next = row(i);
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) part[j] += next(j);
    }
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) wide[j] += part[j];
  }
}

}  // namespace
}  // namespace flambeau::loops
