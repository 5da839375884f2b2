// Loops of integer matrix products, compiled once per instruction set: blocks of the right operand
// are copied, two vectors of columns wide, and tiles of four rows keep their sums in registers. For
// one column, each row is one sum.
// Formula: c[i, j] = sum_p a[i, p] * b[p, j] modulo 2^bits, added to c where asked.
// Accumulates in: unsigned integers of the operands' width, of 16 bits for those of 8: sums modulo
// a power of two do not depend on the higher bits.
// NaN, infinity: integers have none.
// Error: none; overflow wraps.
// Source: by definition.
#include "aten/core/loop_types.h"
#include "aten/ops/matmul/integer_product.h"
#include "aten/ops/matmul/register_tile.h"

namespace flambeau::loops {
namespace {

using gemm::IntegerProduct;

constexpr int64_t kDepth = 256;  // rows of a block: with 64-bit sums and 512 bits it takes 32 KiB
constexpr int64_t kTileRows = 4;

// T: the elements. U: the sums.
template <typename T, typename U>
void pack(const IntegerProduct& of, int64_t first_row, int64_t rows, int64_t first_column,
          int64_t columns, int64_t width, U* to) {
  const T* b = static_cast<const T*>(of.b.data) + first_row * of.b.row_stride +
               first_column * of.b.col_stride;
  for (int64_t p = 0; p < rows; ++p) {
    U* row = to + p * width;
    const T* from = b + p * of.b.row_stride;
    if (of.b.col_stride == 1) {
      for (int64_t j = 0; j < columns; ++j) row[j] = from[j];
    } else {
      for (int64_t j = 0; j < columns; ++j) row[j] = from[j * of.b.col_stride];
    }
    for (int64_t j = columns; j < width; ++j) row[j] = 0;
  }
}

template <typename T, typename U>
void write(const U* from, int64_t columns, bool accumulate, T* to) {
  for (int64_t j = 0; j < columns; ++j)
    to[j] = static_cast<T>(accumulate ? static_cast<U>(to[j] + from[j]) : from[j]);
}

// All rows of a times one packed block.
template <typename T, typename U>
void block(const IntegerProduct& of, int64_t first_row, int64_t rows, const U* right,
           int64_t columns, T* c) {
  constexpr int64_t kColumns = 2 * Vector<U>::kWidth;
  const T* a = static_cast<const T*>(of.a.data) + first_row * of.a.col_stride;
  U sums[kTileRows * kColumns];
  for (int64_t i = 0; i < of.m; i += kTileRows) {
    const int64_t count = of.m - i < kTileRows ? of.m - i : kTileRows;
    const T* left[kTileRows];
    for (int64_t r = 0; r < kTileRows; ++r)  // the last row again where there are fewer
      left[r] = a + (i + (r < count ? r : count - 1)) * of.a.row_stride;
    tile<U, kTileRows, 2>(rows, left, of.a.col_stride, right, kColumns, sums, kColumns);
    for (int64_t r = 0; r < count; ++r)
      write(sums + r * kColumns, columns, of.accumulate || first_row > 0, c + (i + r) * of.ldc);
  }
}

// Factors of 16 bits would be multiplied as int, which may overflow: 1u makes them unsigned.
template <typename T, typename U>
void multiply_column(const IntegerProduct& of) {
  const T* b = static_cast<const T*>(of.b.data);
  U right[kDepth];
  for (int64_t first = 0; first < of.k; first += kDepth) {
    const int64_t rows = of.k - first < kDepth ? of.k - first : kDepth;
    for (int64_t p = 0; p < rows; ++p) right[p] = b[(first + p) * of.b.row_stride];
    for (int64_t i = 0; i < of.m; ++i) {
      const T* a = static_cast<const T*>(of.a.data) + i * of.a.row_stride + first * of.a.col_stride;
      U sum = 0;
      if (of.a.col_stride == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t p = 0; p < rows; ++p)
          sum += static_cast<U>(1u * static_cast<U>(a[p]) * right[p]);
      } else {
        for (int64_t p = 0; p < rows; ++p)
          sum += static_cast<U>(1u * static_cast<U>(a[p * of.a.col_stride]) * right[p]);
      }
      write(&sum, 1, of.accumulate || first > 0, static_cast<T*>(of.c) + i * of.ldc);
    }
  }
}

template <typename T, typename U>
void multiply_integers(const IntegerProduct& of) {
  if (of.n == 1) return multiply_column<T, U>(of);
  constexpr int64_t kColumns = 2 * Vector<U>::kWidth;
  alignas(64) U right[kDepth * kColumns];
  for (int64_t j = 0; j < of.n; j += kColumns) {
    const int64_t columns = of.n - j < kColumns ? of.n - j : kColumns;
    for (int64_t first = 0; first < of.k; first += kDepth) {
      const int64_t rows = of.k - first < kDepth ? of.k - first : kDepth;
      pack<T>(of, first, rows, j, columns, kColumns, right);
      block(of, first, rows, right, columns, static_cast<T*>(of.c) + j);
    }
  }
}

}  // namespace

extern const gemm::IntegerLoop FLAMBEAU_LOOPS(integer_gemm)[4];
const gemm::IntegerLoop FLAMBEAU_LOOPS(integer_gemm)[4] = {
    &multiply_integers<uint8_t, uint16_t>, &multiply_integers<uint16_t, uint16_t>,
    &multiply_integers<uint32_t, uint32_t>, &multiply_integers<uint64_t, uint64_t>};

}  // namespace flambeau::loops
