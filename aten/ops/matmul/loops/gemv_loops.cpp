// Loops of matrix times vector, compiled once per instruction set.
// Formula: y[i] = sum_j a[i, j] * x[j].
// Accumulates in: float32 or float64, as the operands.
// NaN, infinity: both follow IEEE arithmetic; a product with 0 of an infinity is NaN.
// Error: that of matmul_cpu.cpp: k * eps * sum |a||x|.
// Source: by definition.
#include "aten/core/loop_types.h"
#include "aten/ops/matmul/gemv.h"

namespace flambeau::loops {
namespace {

template <typename T>
void rows(int64_t m, int64_t n, const void* a, int64_t stride, const void* x, void* y) {
  const T* vector = static_cast<const T*>(x);
  for (int64_t i = 0; i < m; ++i) {
    const T* row = static_cast<const T*>(a) + i * stride;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; ++j) sum += row[j] * vector[j];
    static_cast<T*>(y)[i] = sum;
  }
}

template <typename T>
void columns(int64_t m, int64_t n, const void* a, int64_t stride, const void* x, void* y) {
  T* out = static_cast<T*>(y);
  for (int64_t i = 0; i < m; ++i) out[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const T* column = static_cast<const T*>(a) + j * stride;
    const T scale = static_cast<const T*>(x)[j];
#pragma omp simd
    for (int64_t i = 0; i < m; ++i) out[i] += column[i] * scale;
  }
}

}  // namespace

extern const gemv::Loops FLAMBEAU_LOOPS(gemv)[2];
const gemv::Loops FLAMBEAU_LOOPS(gemv)[2] = {{&rows<float>, &columns<float>},
                                             {&rows<double>, &columns<double>}};

}  // namespace flambeau::loops
