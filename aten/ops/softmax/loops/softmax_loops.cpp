// softmax and log_softmax of contiguous rows, compiled once per instruction set.
#include "aten/ops/softmax/softmax_loops.h"

#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

// The largest element, or NaN or any element of a row with a NaN: there the sum is NaN.
template <typename T>
[[gnu::always_inline]] inline T largest(const T* in, int64_t n) {
  T top = in[0];
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) top = in[i] > top ? in[i] : top;
  return top;
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void softmax(int64_t rows, int64_t n, const void* in, void* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(in) + r * n;
    T* y = static_cast<T*>(out) + r * n;
    const T top = largest(x, n);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const T e = vec::exp_nonpositive(x[i] - top);
      y[i] = e;
      sum += e;
    }
    const T scale = T(1) / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void log_softmax(int64_t rows, int64_t n, const void* in, void* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(in) + r * n;
    T* y = static_cast<T*>(out) + r * n;
    const T top = largest(x, n);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += vec::exp_nonpositive(x[i] - top);
    const T shift = top + vec::log(sum);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - shift;
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void softmax_backward(int64_t rows, int64_t n, const void* grad,
                                            const void* result, void* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* g = static_cast<const T*>(grad) + r * n;
    const T* y = static_cast<const T*>(result) + r * n;
    T* to = static_cast<T*>(out) + r * n;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += g[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = y[i] * (g[i] - sum);
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void log_softmax_backward(int64_t rows, int64_t n, const void* grad,
                                                const void* result, void* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* g = static_cast<const T*>(grad) + r * n;
    const T* y = static_cast<const T*>(result) + r * n;
    T* to = static_cast<T*>(out) + r * n;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += g[i];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = g[i] - vec::exp(y[i]) * sum;
  }
}

}  // namespace

extern const flambeau::softmax::Loops FLAMBEAU_LOOPS(softmax_rows)[2];
const flambeau::softmax::Loops FLAMBEAU_LOOPS(softmax_rows)[2] = {
    {&softmax<float>, &log_softmax<float>, &softmax_backward<float>, &log_softmax_backward<float>},
    {&softmax<double>, &log_softmax<double>, &softmax_backward<double>,
     &log_softmax_backward<double>}};

}  // namespace flambeau::loops
