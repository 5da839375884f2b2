// Matrix products. Small ones of float32 and float64, and with AVX-512 those of few rows of
// float32, go to loops of ours, since the call of a library would cost more than the work or a part
// of it. float32 and the half types go to oneDNN where it is built in and has a primitive for them,
// but float32 with a large right operand goes to OpenBLAS; other half types are multiplied in
// float32 blocks; other float32, float64 and complex go to OpenBLAS; integers to loops of
// ours (integer_gemm.h). NaN and infinity follow IEEE arithmetic; k = 0 gives zeros.
#include "aten/ops/matmul/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "aten/cpu/parallel.h"
#include "aten/ops/matmul/integer_gemm.h"
#include "aten/ops/matmul/onednn_matmul.h"
#include "aten/ops/matmul/small_gemm.h"
#include "c10/core/interrupt.h"

namespace flambeau::gemm {
namespace {

constexpr int64_t kTinyWork = 32 * 32 * 32;
// oneDNN's float32 product slows down where the right operand does not stay in the L2 cache: 58 to
// 81 Gflop/s against OpenBLAS's 113 to 128 for squares of 1280 to 2048, one thread, 1 MiB of L2.
constexpr int64_t kLargeOperand = int64_t{2} << 20;  // bytes

bool is_large(ScalarType dtype, const Matrix& b) {
  return dtype == ScalarType::Float32 && b.rows * b.cols * int64_t{sizeof(float)} > kLargeOperand;
}

bool is_blas_layout(const Matrix& m) {
  const auto fits = [](int64_t inner, int64_t outer, int64_t inner_size) {
    return inner == 1 && outer >= std::max<int64_t>(inner_size, 1);
  };
  // One row or column may have any positive stride, but none that stays in place (expand).
  const bool one_row = m.rows == 1 && (m.col_stride >= 1 || m.cols == 1);
  const bool one_column = m.cols == 1 && m.row_stride >= 1;
  return fits(m.col_stride, m.row_stride, m.cols) || fits(m.row_stride, m.col_stride, m.rows) ||
         one_row || one_column;
}

// A row-major copy of a matrix whose strides no library takes.
template <typename T>
Matrix packed(const Matrix& m, std::vector<T>& storage) {
  storage.resize(static_cast<size_t>(m.rows * m.cols));
  const T* from = static_cast<const T*>(m.data);
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.cols; ++j) {
      storage[static_cast<size_t>(i * m.cols + j)] = from[i * m.row_stride + j * m.col_stride];
    }
  }
  return {storage.data(), m.rows, m.cols, m.cols, 1};
}

struct BlasOperand {
  CBLAS_TRANSPOSE transpose;
  blasint leading;
};
BlasOperand blas_operand(const Matrix& m) {
  const bool row_major = m.col_stride == 1 && m.row_stride >= std::max<int64_t>(m.cols, 1);
  if (row_major) return {CblasNoTrans, static_cast<blasint>(m.row_stride)};
  const bool col_major = m.row_stride == 1 && m.col_stride >= std::max<int64_t>(m.rows, 1);
  if (col_major) return {CblasTrans, static_cast<blasint>(m.col_stride)};
  if (m.rows == 1) {  // one row with a stride is a column of that leading dimension
    return m.col_stride >= 1 ? BlasOperand{CblasTrans, static_cast<blasint>(m.col_stride)}
                             : BlasOperand{CblasNoTrans, static_cast<blasint>(m.cols)};
  }
  return {CblasNoTrans, static_cast<blasint>(std::max<int64_t>(m.row_stride, 1))};
}

template <typename T>
void blas(const Matrix& a, const Matrix& b, T* out, int64_t ldc, bool accumulate) {
  const auto [ta, lda] = blas_operand(a);
  const auto [tb, ldb] = blas_operand(b);
  const auto m = static_cast<blasint>(a.rows), n = static_cast<blasint>(b.cols),
             k = static_cast<blasint>(a.cols);
  const auto ld = static_cast<blasint>(std::max<int64_t>(ldc, 1));
  const T one = T(1), beta = accumulate ? T(1) : T(0);
  if constexpr (std::is_same_v<T, float>) {
    scipy_cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, one, static_cast<const T*>(a.data), lda,
                      static_cast<const T*>(b.data), ldb, beta, out, ld);
  } else if constexpr (std::is_same_v<T, double>) {
    scipy_cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, one, static_cast<const T*>(a.data), lda,
                      static_cast<const T*>(b.data), ldb, beta, out, ld);
  } else if constexpr (std::is_same_v<T, complex<float>>) {
    scipy_cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &one, a.data, lda, b.data, ldb, &beta, out,
                      ld);
  } else {
    scipy_cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &one, a.data, lda, b.data, ldb, &beta, out,
                      ld);
  }
}

template <typename T>
void with_blas_layout(const Matrix& a, const Matrix& b, T* out, int64_t ldc, bool accumulate) {
  std::vector<T> storage_a, storage_b;
  const Matrix left = is_blas_layout(a) && a.col_stride >= 0 ? a : packed(a, storage_a);
  const Matrix right = is_blas_layout(b) ? b : packed(b, storage_b);
  blas(left, right, out, ldc, accumulate);
}

// One row of complex numbers times one column: a product of matrices would copy both first. False
// for strides that stay in place.
template <typename T>
bool dot(const Matrix& a, const Matrix& b, T* out, bool accumulate) {
  if (a.rows != 1 || b.cols != 1 || a.col_stride < 1 || b.row_stride < 1) return false;
  const auto n = static_cast<blasint>(a.cols);
  const auto step_a = static_cast<blasint>(a.col_stride),
             step_b = static_cast<blasint>(b.row_stride);
  T sum;
  if constexpr (std::is_same_v<T, complex<float>>) {
    scipy_cblas_cdotu_sub(n, a.data, step_a, b.data, step_b, &sum);
  } else {
    scipy_cblas_zdotu_sub(n, a.data, step_a, b.data, step_b, &sum);
  }
  *out = accumulate ? *out + sum : sum;
  return true;
}

void fill_zero(ScalarType dtype, int64_t rows, int64_t cols, void* out, int64_t ldc) {
  const auto width = static_cast<int64_t>(element_size(dtype));
  for (int64_t i = 0; i < rows; ++i) {
    std::memset(static_cast<char*>(out) + i * ldc * width, 0, static_cast<size_t>(cols * width));
  }
}

SmallProducts small_products(int64_t count, const Matrix& a, int64_t a_step, const Matrix& b,
                             int64_t b_step, void* c, int64_t c_step, int64_t ldc,
                             bool accumulate) {
  return {count,
          a.rows,
          b.cols,
          a.cols,
          {a.data, a.row_stride, a.col_stride, a_step},
          {b.data, b.row_stride, b.col_stride, b_step},
          c,
          ldc,
          c_step,
          accumulate};
}

// A product that takes seconds is cut into panels, between which it can be stopped: of rows, of the
// sums' terms where rows are few, or of matrices. Panels are large enough for what a library does
// once for each.
constexpr int64_t kPanelWork = int64_t{1} << 33;  // multiplications of float32
constexpr int64_t kLeastPanel = 256;              // rows, or terms

// One multiplication's cost beside float32's.
int64_t weight_of(ScalarType dtype) {
  const int64_t width = static_cast<int64_t>(element_size(dtype));
  return std::max<int64_t>(is_complex_type(dtype) ? width / 2 : width / 4, 1);
}

bool is_for_onednn(ScalarType dtype, const Matrix& a, const Matrix& b) {
  const bool tiny = dtype == ScalarType::Float32 && a.rows * b.cols * a.cols <= kTinyWork;
  return !tiny && !is_large(dtype, b);
}

void multiply_panel(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                    bool accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  if (a.cols == 0) {
    if (!accumulate) fill_zero(dtype, a.rows, b.cols, out, ldc);
    return;
  }
  if (is_small(dtype, a.rows, b.cols, a.cols)) {
    const SmallProducts one = small_products(1, a, 0, b, 0, out, 0, ldc, accumulate);
    return multiply_small(dtype, one);
  }
  if (multiply_few_rows(dtype, small_products(1, a, 0, b, 0, out, 0, ldc, accumulate),
                        accumulate ? out : nullptr, ldc))
    return;
  if (is_reduced_floating_type(dtype) && a.rows == 1 && b.cols == 1)
    return multiply_row_and_column(dtype, a, b, out, accumulate);
  if (is_for_onednn(dtype, a, b) && onednn::multiply(dtype, 1, a, 0, b, 0, out, 0, ldc, accumulate))
    return;
  if (is_reduced_floating_type(dtype)) return multiply_in_float(dtype, a, b, out, ldc, accumulate);
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Complex64,
                 ScalarType::Complex128, ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16,
                 ScalarType::Int32, ScalarType::Int64>(dtype, "matmul", [&]<typename T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex_v<T>) {
      std::optional<SerialBlas> serial;
      if (in_parallel_region()) serial.emplace();
      if constexpr (is_complex_v<T>) {
        if (dot(a, b, static_cast<T*>(out), accumulate)) return;
      }
      with_blas_layout(a, b, static_cast<T*>(out), ldc, accumulate);
    } else {
      multiply_integers(dtype, a, b, out, ldc, accumulate);
    }
  });
}

// Partial sums go through the result's dtype, which is too coarse for them if it is a half type.
// Those of float32 would be oneDNN's: its product that accumulates (3.2) is not safe from signal
// handlers on the normal stack (c10/core/signal_stack.h), so few rows of float32 are not cut.
void multiply_rows(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                   bool accumulate) {
  const int64_t width = static_cast<int64_t>(element_size(dtype));
  const int64_t fitting = kPanelWork / (a.rows * b.cols * weight_of(dtype));
  const bool whole = width < 4 || dtype == ScalarType::Float32 || fitting * 2 >= a.cols;
  const int64_t terms = whole ? a.cols : std::max(fitting, kLeastPanel);
  for (int64_t first = 0; first < a.cols; first += terms) {
    check_interrupt();
    Matrix left = a, right = b;
    left.cols = right.rows = std::min(terms, a.cols - first);
    left.data = static_cast<const char*>(a.data) + first * a.col_stride * width;
    right.data = static_cast<const char*>(b.data) + first * b.row_stride * width;
    multiply_panel(dtype, left, right, out, ldc, accumulate || first > 0);
  }
}

}  // namespace

void multiply(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
              bool accumulate) {
  const int64_t row = b.rows * b.cols * weight_of(dtype);
  if (row * a.rows < 2 * kPanelWork) return multiply_panel(dtype, a, b, out, ldc, accumulate);
  const int64_t rows = std::max(kPanelWork / row, kLeastPanel);
  const auto width = static_cast<int64_t>(element_size(dtype));
  for (int64_t first = 0; first < a.rows; first += rows) {
    Matrix panel = a;
    panel.data = static_cast<const char*>(a.data) + first * a.row_stride * width;
    panel.rows = std::min(rows, a.rows - first);
    multiply_rows(dtype, panel, b, static_cast<char*>(out) + first * ldc * width, ldc, accumulate);
  }
}

bool multiply_and_add_row(ScalarType dtype, const Matrix& a, const Matrix& b, const void* row,
                          void* out) {
  const int64_t work = a.rows * b.cols * a.cols;
  return work > 0 && work * weight_of(dtype) < 2 * kPanelWork &&
         !is_small(dtype, a.rows, b.cols, a.cols) && is_for_onednn(dtype, a, b) &&
         onednn::multiply(dtype, 1, a, 0, b, 0, out, 0, b.cols, false, row);
}

bool multiply_few_rows_and_add(ScalarType dtype, const Matrix& a, const Matrix& b,
                               const Matrix& addend, void* out) {
  return addend.col_stride == 1 && a.cols > 0 && !is_small(dtype, a.rows, b.cols, a.cols) &&
         multiply_few_rows(dtype, small_products(1, a, 0, b, 0, out, 0, b.cols, true), addend.data,
                           addend.row_stride);
}

void multiply_batched(ScalarType dtype, int64_t count, const Matrix& a, int64_t a_step,
                      const Matrix& b, int64_t b_step, void* out, int64_t out_step, int64_t ldc,
                      bool accumulate) {
  const bool empty = count == 0 || a.rows == 0 || b.cols == 0 || a.cols == 0;
  if (!empty && is_small(dtype, a.rows, b.cols, a.cols)) {
    return multiply_small(
        dtype, small_products(count, a, a_step, b, b_step, out, out_step, ldc, accumulate));
  }
  const int64_t work = a.rows * a.cols * b.cols * weight_of(dtype);
  const auto width = static_cast<int64_t>(element_size(dtype));
  if (count > 1 && work * count >= 2 * kPanelWork) {
    const int64_t panel = std::max<int64_t>(kPanelWork / work, 1);
    for (int64_t first = 0; first < count; first += panel) {
      check_interrupt();
      Matrix left = a, right = b;
      left.data = static_cast<const char*>(a.data) + first * a_step * width;
      right.data = static_cast<const char*>(b.data) + first * b_step * width;
      multiply_batched(dtype, std::min(panel, count - first), left, a_step, right, b_step,
                       static_cast<char*>(out) + first * out_step * width, out_step, ldc,
                       accumulate);
    }
    return;
  }
  if (!empty && work < 2 * kPanelWork && !is_large(dtype, b) &&
      onednn::multiply(dtype, count, a, a_step, b, b_step, out, out_step, ldc, accumulate))
    return;
  const auto at = [width](const void* p, int64_t step, int64_t i) {
    return static_cast<const char*>(p) + i * step * width;
  };
  parallel_for(0, count, std::max<int64_t>(a.rows * b.cols * a.cols, 1) * width,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   Matrix left = a, right = b;
                   left.data = at(a.data, a_step, i);
                   right.data = at(b.data, b_step, i);
                   multiply(dtype, left, right, const_cast<char*>(at(out, out_step, i)), ldc,
                            accumulate);
                 }
               });
}

}  // namespace flambeau::gemm
