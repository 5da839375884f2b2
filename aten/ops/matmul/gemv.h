#pragma once
// Matrix times vector: bound by memory, so a loop of ours beats a general product.
#include "aten/core/tensor.h"

namespace flambeau::gemv {

// float32 and float64, contiguous rows or columns; false (nothing done) otherwise.
bool multiply(const Tensor& matrix, const void* vector, int64_t vector_stride, void* out);

// One dtype's loops: dot products of `rows` rows with x, and y += column * x[j] over `cols`
// columns.
struct Loops {
  void (*rows)(int64_t rows, int64_t cols, const void* a, int64_t row_stride, const void* x,
               void* y);
  void (*columns)(int64_t rows, int64_t cols, const void* a, int64_t col_stride, const void* x,
                  void* y);
};

}  // namespace flambeau::gemv
