#pragma once
// A tile of a matrix product whose sums stay in registers, for loops that are compiled once per
// instruction set.
#include <string.h>

#include "aten/cpu/vecmath/vector_bytes.h"
#include "c10/core/namespace.h"

namespace flambeau::loops {
namespace {

using vec::kVectorBytes;

template <typename T>
struct Vector {
  typedef T type __attribute__((vector_size(kVectorBytes)));
  static constexpr int64_t kWidth = kVectorBytes / sizeof(T);
  static type load(const T* from) {
    type v;
    memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(T* to, type v) { memcpy(to, &v, sizeof v); }
};

// out (rows `ldo` apart) = R rows of a times a panel of b of C vectors of columns. Loops over R and
// C are unrolled so that the sums stay in registers. The type of a may be narrower than that of b.
template <typename T, int64_t R, int64_t C, typename A = T>
void tile(int64_t k, const A* const* rows, int64_t step, const T* b, int64_t ldb, T* out,
          int64_t ldo) {
  using V = Vector<T>;
  typename V::type sums[R][C] = {};
  const A* row[R];
#pragma GCC unroll 8
  for (int64_t r = 0; r < R; ++r) row[r] = rows[r];
  for (int64_t p = 0; p < k; ++p) {
    typename V::type y[C];
#pragma GCC unroll 8
    for (int64_t c = 0; c < C; ++c) y[c] = V::load(b + p * ldb + c * V::kWidth);
#pragma GCC unroll 8
    for (int64_t r = 0; r < R; ++r) {
      const T x = static_cast<T>(row[r][p * step]);
#pragma GCC unroll 8
      for (int64_t c = 0; c < C; ++c) sums[r][c] += x * y[c];
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int64_t c = 0; c < C; ++c) V::store(out + r * ldo + c * V::kWidth, sums[r][c]);
  }
}

}  // namespace
}  // namespace flambeau::loops
