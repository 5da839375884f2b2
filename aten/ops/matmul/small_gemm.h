#pragma once
// Products of matrices so small that the call of a library costs more than the work.
#include <cstdint>

#include "c10/core/namespace.h"
#include "c10/core/scalar_type_id.h"

namespace flambeau::gemm {

// The loops have a buffer for one right operand of these sizes.
inline constexpr int64_t kSmallDepth = 64;
inline constexpr int64_t kSmallColumns = 64;
inline constexpr int64_t kSmallWork = 16 * 16 * 32;

// `count` products c (m x n, row-major) = a (m x k) * b (k x n), or += when `accumulate`. All
// strides, and steps between products, in elements.
struct SmallProducts {
  struct Operand {
    const void* data;
    int64_t row_stride, col_stride, step;
  };
  int64_t count, m, n, k;
  Operand a, b;
  void* c;
  int64_t ldc, c_step;
  bool accumulate;
};
// One dtype's loop. Sums are kept in the type itself; multiplications and additions are fused where
// the instruction set has that.
struct SmallLoops {
  void (*multiply)(const SmallProducts& products);
  // One product's vectors of 16 columns [begin, end), added to `addend` unless that is null. Null
  // where the instruction set has too few registers for it.
  void (*multiply_strips)(const SmallProducts& product, const float* addend, int64_t addend_stride,
                          int64_t begin, int64_t end);
};

// Whether `multiply_small` takes them: float32 and float64, up to kSmallWork multiplications each.
bool is_small(ScalarType dtype, int64_t m, int64_t n, int64_t k);
void multiply_small(ScalarType dtype, const SmallProducts& products);

// Few rows of float32 times a matrix whose columns fill vectors and lie side by side, with AVX-512:
// a library spends a quarter of such a product on other things. `addend`: what the product is added
// to, with its rows this many elements apart; null adds nothing. False where it is something else.
bool multiply_few_rows(ScalarType dtype, const SmallProducts& product, const void* addend,
                       int64_t addend_stride);

}  // namespace flambeau::gemm
