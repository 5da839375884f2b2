// Weighted sums of few elements along one dimension, compiled once per instruction set.
// Formula: out[o] = sum over taps t of weight[o, t] * in[index[o, t]].
// Accumulates in: float32 or float64.
// NaN, infinity: both follow IEEE arithmetic.
// Error: that of resample_cpu.cpp: 8 eps of the largest magnitude.
// Source: by definition.
#include "aten/ops/resample/resample_loops.h"

#include <stdint.h>

#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

template <typename T>
void row(int64_t inner, int64_t taps, const int64_t* index, const void* weights, const void* in,
         void* out) {
  const T* w = static_cast<const T*>(weights);
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  if (taps == 2) {
    const T *a = x + index[0] * inner, *b = x + index[1] * inner;
    const T u = w[0], v = w[1];
#pragma omp simd
    for (int64_t j = 0; j < inner; ++j) y[j] = u * a[j] + v * b[j];
    return;
  }
  for (int64_t j = 0; j < inner && taps == 0; ++j) y[j] = 0;
  for (int64_t t = 0; t < taps; ++t) {
    const T* a = x + index[t] * inner;
    const T u = w[t];
    if (t == 0) {
#pragma omp simd
      for (int64_t j = 0; j < inner; ++j) y[j] = u * a[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < inner; ++j) y[j] += u * a[j];
    }
  }
}

template <typename T, int kTaps>
void uniform_row(int64_t m, const int64_t* index, const T* w, const T* x, T* y) {
#pragma omp simd
  for (int64_t o = 0; o < m; ++o) {
    T sum = 0;
    for (int t = 0; t < kTaps; ++t) sum += w[o * kTaps + t] * x[index[o * kTaps + t]];
    y[o] = sum;
  }
}

template <typename T>
void rows(int64_t rows, int64_t n, int64_t m, int64_t per_output, const int64_t* first,
          const int64_t* index, const void* weights, const void* in, void* out) {
  const T* w = static_cast<const T*>(weights);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(in) + r * n;
    T* y = static_cast<T*>(out) + r * m;
    if (per_output == 2) {
      uniform_row<T, 2>(m, index, w, x, y);
    } else if (per_output == 4) {
      uniform_row<T, 4>(m, index, w, x, y);
    } else {
      for (int64_t o = 0; o < m; ++o) {
        T sum = 0;
        for (int64_t t = first[o]; t < first[o + 1]; ++t) sum += w[t] * x[index[t]];
        y[o] = sum;
      }
    }
  }
}

}  // namespace

extern const flambeau::resample::Loops FLAMBEAU_LOOPS(resample_rows)[2];
const flambeau::resample::Loops FLAMBEAU_LOOPS(resample_rows)[2] = {{&row<float>, &rows<float>},
                                                                    {&row<double>, &rows<double>}};

}  // namespace flambeau::loops
