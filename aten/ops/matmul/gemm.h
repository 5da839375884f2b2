#pragma once
// Matrix products behind one interface, whatever library or loop computes them.
#include "aten/core/tensor.h"

namespace flambeau::gemm {

// rows x cols elements at `data`; strides in elements. Any strides are accepted; row- or
// column-major ones cost no copy.
struct Matrix {
  const void* data;
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
  int64_t col_stride;
};

// out (row-major, m x n, rows `ldc` apart) = a * b, or += when `accumulate`. The sum over k is kept
// in float32 for the half types, which round it once, and in the type itself otherwise (int64 for
// integers). k = 0 gives zeros.
void multiply(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
              bool accumulate);

// out (row-major) = addend + a * b for few rows of float32, where a loop of ours takes them: it
// reads the addend once. False where it does not.
bool multiply_few_rows_and_add(ScalarType dtype, const Matrix& a, const Matrix& b,
                               const Matrix& addend, void* out);

// out (row-major) = row + a * b, with the row added to every row of the product in the loop that
// writes it. False where no library does that; then nothing was done.
bool multiply_and_add_row(ScalarType dtype, const Matrix& a, const Matrix& b, const void* row,
                          void* out);

// What `multiply` does, for float16 and bfloat16 by products of float32 blocks.
void multiply_in_float(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                       bool accumulate);

// What `multiply` does, for one row of float16 or bfloat16 times one column: converted in blocks to
// float32 and summed.
void multiply_row_and_column(ScalarType dtype, const Matrix& a, const Matrix& b, void* out,
                             bool accumulate);

// The same as `multiply` for `count` products; strides between them in elements (0 repeats an
// operand).
void multiply_batched(ScalarType dtype, int64_t count, const Matrix& a, int64_t a_step,
                      const Matrix& b, int64_t b_step, void* out, int64_t out_step, int64_t ldc,
                      bool accumulate);

inline Matrix matrix_of(const Tensor& t) {
  return {t.data(), t.size(-2), t.size(-1), t.stride(-2), t.stride(-1)};
}
inline Matrix transposed(const Matrix& m) {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

}  // namespace flambeau::gemm
