#pragma once
// Loops over pairs of rows, compiled once per instruction set: float first, then double.
#include "aten/core/loop_types.h"

namespace flambeau::distance {

// The orders that have a loop of their own.
enum class Order : int { Zero, One, Two, Infinite, Other };
inline constexpr int kOrders = 5;

struct Loops {
  int64_t width;  // rows that are packed together
  // Rows of k elements so that element i of row width b + l lies at (b k + i) width + l, filled up
  // with zeros.
  void (*pack)(int64_t rows, int64_t k, const void* from, void* packed);
  // out[i, j] = distance of row i < m of `left` from row j < n of what was packed.
  void (*distances[kOrders])(int64_t m, int64_t n, int64_t k, const void* left, const void* packed,
                             double p, void* out);
};

}  // namespace flambeau::distance
