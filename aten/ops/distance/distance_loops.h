#pragma once
// Loops over pairs of rows, compiled once per instruction set: float first, then double.
#include "aten/core/loop_types.h"

namespace flambeau::distance {

// The orders that have a loop of their own.
enum class Order : int { Zero, One, Two, Infinite, Other };
inline constexpr int kOrders = 5;

struct Loops {
  int64_t width;  // rows that are packed together
  // Rows of k elements so that element i of row width b + l lies at (b k + i) width + l. The last
  // vector that holds a row is filled up with zeros, what follows it is not written.
  void (*pack)(int64_t rows, int64_t k, const void* from, void* packed);
  // out[i, j] = distance of row i < m of `left` from row j < n of what was packed.
  void (*distances[kOrders])(int64_t m, int64_t n, int64_t k, const void* left, const void* packed,
                             double p, void* out);
  // The same for rows begin <= i < end of `rows`, which are also those that were packed, and for
  // j > i only: the results of row i begin at out + pairs_before(i, n).
  void (*pairs[kOrders])(int64_t begin, int64_t end, int64_t n, int64_t k, const void* rows,
                         const void* packed, double p, void* out);
};

// How many pairs of n rows begin with a row before row i.
inline int64_t pairs_before(int64_t i, int64_t n) { return i * (2 * n - i - 1) / 2; }

}  // namespace flambeau::distance
