// Loops of small matrix products, compiled once per instruction set: tiles of four rows by two
// vectors of columns, or eight by one, stay in registers while the sums run. Right operands whose
// columns do not lie side by side, or do not fill vectors, are copied first. Larger products of few
// rows read the right operand where it lies, in tiles of eight rows by three vectors.
// Formula: c[i, j] = sum_p a[i, p] * b[p, j], added to c where asked.
// Accumulates in: float32 or float64, as the operands.
// NaN, infinity: both follow IEEE arithmetic.
// Error: that of matmul_cpu.cpp: k * eps * sum |a||b|.
// Source: by definition.
#include "aten/core/loop_types.h"
#include "aten/ops/matmul/register_tile.h"
#include "aten/ops/matmul/small_gemm.h"

namespace flambeau::loops {
namespace {

using gemm::SmallProducts;
using vec::kVectorBytes;

constexpr int64_t kSums =
    8;  // vectors of sums per tile: enough to hide the latency of one addition

template <typename T>
void write(const T* from, int64_t columns, bool accumulate, T* to) {
  for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + from[j] : from[j];
}

// All rows of one panel of `columns` columns, at most those of C vectors.
template <typename T, int64_t C>
void panel(const SmallProducts& of, const T* a, const T* b, int64_t ldb, int64_t columns, T* c) {
  constexpr int64_t kRows = kSums / C, kColumns = C * Vector<T>::kWidth;
  T sums[kRows * kColumns];
  for (int64_t i = 0; i < of.m; i += kRows) {
    const int64_t count = of.m - i < kRows ? of.m - i : kRows;
    const T* rows[kRows];
    for (int64_t r = 0; r < kRows; ++r)  // the last row again where there are fewer
      rows[r] = a + (i + (r < count ? r : count - 1)) * of.a.row_stride;
    if (count == kRows && columns == kColumns && !of.accumulate) {
      tile<T, kRows, C>(of.k, rows, of.a.col_stride, b, ldb, c + i * of.ldc, of.ldc);
      continue;
    }
    tile<T, kRows, C>(of.k, rows, of.a.col_stride, b, ldb, sums, kColumns);
    for (int64_t r = 0; r < count; ++r)
      write(sums + r * kColumns, columns, of.accumulate, c + (i + r) * of.ldc);
  }
}

template <typename T>
void product(const SmallProducts& of, const T* a, const T* b, int64_t ldb, T* c) {
  constexpr int64_t kOne = Vector<T>::kWidth, kTwo = 2 * kOne;
  for (int64_t j = 0; j < of.n; j += kTwo) {
    const int64_t rest = of.n - j;
    if (rest > kOne) {
      panel<T, 2>(of, a, b + j, ldb, rest < kTwo ? rest : kTwo, c + j);
    } else {
      panel<T, 1>(of, a, b + j, ldb, rest, c + j);
    }
  }
}

// A row-major copy of b whose rows are filled up with zeros to whole vectors.
template <typename T>
void fill_up(const SmallProducts& of, const T* b, int64_t width, T* to) {
  for (int64_t p = 0; p < of.k; ++p) {
    T* row = to + p * width;
    for (int64_t j = 0; j < of.n; ++j) row[j] = b[p * of.b.row_stride + j * of.b.col_stride];
    for (int64_t j = of.n; j < width; ++j) row[j] = T(0);
  }
}

template <typename T>
void multiply(const SmallProducts& of) {
  constexpr int64_t kWidth = Vector<T>::kWidth;
  const int64_t width = (of.n + kWidth - 1) / kWidth * kWidth;
  const bool direct = of.b.col_stride == 1 && width == of.n;
  const T *a = static_cast<const T*>(of.a.data), *b = static_cast<const T*>(of.b.data);
  T* c = static_cast<T*>(of.c);
  T filled[gemm::kSmallDepth * gemm::kSmallColumns];
  for (int64_t i = 0; i < of.count; ++i) {
    if (direct) {
      product(of, a, b, of.b.row_stride, c);
    } else {
      if (i == 0 || of.b.step != 0) fill_up(of, b, width, filled);
      product(of, a, filled, width, c);
    }
    a += of.a.step;
    b += of.b.step;
    c += of.c_step;
  }
}

// --- few rows: with 32 registers of 16 floats, tiles of eight rows by three vectors

// c (R rows) = addend, if there is one, + R rows of a times C vectors of columns of b. The 24 sums
// of the largest tile outlast a read from the second-level cache.
template <int64_t R, int64_t C>
void strip_tile(const SmallProducts& of, const float* a, const float* b, const float* addend,
                int64_t addend_stride, float* c) {
  using V = Vector<float>;
  V::type sums[R][C];
#pragma GCC unroll 8
  for (int64_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < C; ++v)
      sums[r][v] = addend ? V::load(addend + r * addend_stride + v * V::kWidth) : V::type{};
  }
  for (int64_t p = 0; p < of.k; ++p) {
    V::type y[C];
#pragma GCC unroll 8
    for (int64_t v = 0; v < C; ++v) y[v] = V::load(b + p * of.b.row_stride + v * V::kWidth);
#pragma GCC unroll 8
    for (int64_t r = 0; r < R; ++r) {
      const float x = a[r * of.a.row_stride + p * of.a.col_stride];
#pragma GCC unroll 8
      for (int64_t v = 0; v < C; ++v) sums[r][v] += x * y[v];
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < C; ++v) V::store(c + r * of.ldc + v * V::kWidth, sums[r][v]);
  }
}

// All rows of C vectors of columns.
template <int64_t C>
void strip(const SmallProducts& of, const float* b, const float* addend, int64_t addend_stride,
           float* c) {
  const float* a = static_cast<const float*>(of.a.data);
  int64_t i = 0;
  const auto run = [&]<int64_t R>() {
    for (; i + R <= of.m; i += R) {
      strip_tile<R, C>(of, a + i * of.a.row_stride, b,
                       addend ? addend + i * addend_stride : nullptr, addend_stride,
                       c + i * of.ldc);
    }
  };
  run.template operator()<8>();
  run.template operator()<4>();
  run.template operator()<2>();
  run.template operator()<1>();
}

[[maybe_unused]] void multiply_strips(const SmallProducts& of, const float* addend,
                                      int64_t addend_stride, int64_t begin, int64_t end) {
  const auto columns = [&]<int64_t C>(int64_t v) {
    const int64_t at = v * Vector<float>::kWidth;
    strip<C>(of, static_cast<const float*>(of.b.data) + at, addend ? addend + at : nullptr,
             addend_stride, static_cast<float*>(of.c) + at);
  };
  int64_t v = begin;
  for (; v + 3 <= end; v += 3) columns.template operator()<3>(v);
  if (end - v == 2) columns.template operator()<2>(v);
  if (end - v == 1) columns.template operator()<1>(v);
}

}  // namespace

extern const gemm::SmallLoops FLAMBEAU_LOOPS(small_gemm)[2];
const gemm::SmallLoops FLAMBEAU_LOOPS(small_gemm)[2] = {
    {&multiply<float>, kVectorBytes == 64 ? &multiply_strips : nullptr},
    {&multiply<double>, nullptr}};

}  // namespace flambeau::loops
