// Loops of small matrix products, compiled once per instruction set: tiles of four rows by two
// vectors of columns stay in registers while the sums run. Operands whose columns do not lie side
// by side, or do not fill vectors, are copied first.
#include <string.h>

#include "aten/core/loop_types.h"
#include "aten/ops/matmul/small_gemm.h"

namespace flambeau::loops {
namespace {

using gemm::SmallProducts;

#ifdef __AVX2__
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif
constexpr int64_t kRows = 4;

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

// Four rows of a, at a + row[i], times a panel of b of two vectors of columns, or of one.
template <typename T, bool kTwo>
void tile(int64_t k, const T* const* rows, int64_t step, const T* b, int64_t ldb, T* out) {
  using V = Vector<T>;
  typename V::type c00{}, c01{}, c10{}, c11{}, c20{}, c21{}, c30{}, c31{};
  const T *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
  for (int64_t p = 0; p < k; ++p) {
    const auto b0 = V::load(b + p * ldb);
    const T x0 = r0[p * step], x1 = r1[p * step], x2 = r2[p * step], x3 = r3[p * step];
    c00 += x0 * b0;
    c10 += x1 * b0;
    c20 += x2 * b0;
    c30 += x3 * b0;
    if constexpr (kTwo) {
      const auto b1 = V::load(b + p * ldb + V::kWidth);
      c01 += x0 * b1;
      c11 += x1 * b1;
      c21 += x2 * b1;
      c31 += x3 * b1;
    }
  }
  constexpr int64_t kColumns = (kTwo ? 2 : 1) * V::kWidth;
  V::store(out, c00);
  V::store(out + kColumns, c10);
  V::store(out + 2 * kColumns, c20);
  V::store(out + 3 * kColumns, c30);
  if constexpr (kTwo) {
    V::store(out + V::kWidth, c01);
    V::store(out + kColumns + V::kWidth, c11);
    V::store(out + 2 * kColumns + V::kWidth, c21);
    V::store(out + 3 * kColumns + V::kWidth, c31);
  }
}

template <typename T>
void write(const T* from, int64_t columns, bool accumulate, T* to) {
  if (accumulate) {
    for (int64_t j = 0; j < columns; ++j) to[j] += from[j];
  } else {
    memcpy(to, from, sizeof(T) * static_cast<size_t>(columns));
  }
}

// All rows of one panel of `columns` columns, at most those of two vectors.
template <typename T, bool kTwo>
void panel(const SmallProducts& of, const T* a, const T* b, int64_t ldb, int64_t columns, T* c) {
  constexpr int64_t kColumns = (kTwo ? 2 : 1) * Vector<T>::kWidth;
  T sums[kRows * kColumns];
  for (int64_t i = 0; i < of.m; i += kRows) {
    const int64_t count = of.m - i < kRows ? of.m - i : kRows;
    const T* rows[kRows];
    for (int64_t r = 0; r < kRows; ++r)  // the last row again where there are fewer
      rows[r] = a + (i + (r < count ? r : count - 1)) * of.a.row_stride;
    tile<T, kTwo>(of.k, rows, of.a.col_stride, b, ldb, sums);
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
      panel<T, true>(of, a, b + j, ldb, rest < kTwo ? rest : kTwo, c + j);
    } else {
      panel<T, false>(of, a, b + j, ldb, rest, c + j);
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

}  // namespace

extern const gemm::SmallLoops FLAMBEAU_LOOPS(small_gemm)[2];
const gemm::SmallLoops FLAMBEAU_LOOPS(small_gemm)[2] = {{&multiply<float>}, {&multiply<double>}};

}  // namespace flambeau::loops
