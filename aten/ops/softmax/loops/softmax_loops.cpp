// softmax and log_softmax of contiguous rows and of columns, compiled once per instruction set.
// Formula: that of softmax_cpu.cpp: exp(x - max) / sum exp(x - max), and its logarithm.
// Accumulates in: float32 for float32 and half types, float64 for float64.
// NaN, infinity: a fiber of only -inf, or with a NaN or +inf, gives NaN.
// Error: that of softmax_cpu.cpp: 4 eps.
// Source: by definition.
#include "aten/ops/softmax/softmax_loops.h"

#include "aten/cpu/loop_sums.h"

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
    const T shift = vec::log(sum);  // top + shift would round away what tells near elements apart
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) - shift;
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

// --- columns: every step takes one element of each of them

using flambeau::softmax::Columns;
using flambeau::softmax::kColumns;

// The largest element of each column, as `largest`.
template <typename T>
[[gnu::always_inline]] inline void largest_of_columns(const Columns& c, const T* in, T* top) {
  for (int64_t j = 0; j < c.width; ++j) top[j] = in[j];
  for (int64_t i = 1; i < c.n; ++i) {
    const T* x = in + i * c.step;
#pragma omp simd
    for (int64_t j = 0; j < c.width; ++j) top[j] = x[j] > top[j] ? x[j] : top[j];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void softmax_columns(const Columns& c, const void* in, void* out) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  T top[kColumns], part[kColumns], sum[kColumns];
  largest_of_columns(c, x, top);
  total_columns(c.n, c.width, part, sum, [&](int64_t i) {
    return [from = x + i * c.step, to = y + i * c.step, &top](int64_t j) {
      const T e = vec::exp_nonpositive(from[j] - top[j]);
      to[j] = e;
      return e;
    };
  });
  for (int64_t j = 0; j < c.width; ++j) sum[j] = T(1) / sum[j];
  for (int64_t i = 0; i < c.n; ++i) {
    T* to = y + i * c.step;
#pragma omp simd
    for (int64_t j = 0; j < c.width; ++j) to[j] *= sum[j];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void log_softmax_columns(const Columns& c, const void* in, void* out) {
  const T* x = static_cast<const T*>(in);
  T top[kColumns], part[kColumns], sum[kColumns];
  largest_of_columns(c, x, top);
  total_columns(c.n, c.width, part, sum, [&](int64_t i) {
    return
        [from = x + i * c.step, &top](int64_t j) { return vec::exp_nonpositive(from[j] - top[j]); };
  });
#pragma omp simd
  for (int64_t j = 0; j < c.width; ++j) sum[j] = vec::log(sum[j]);
  for (int64_t i = 0; i < c.n; ++i) {
    const T* from = x + i * c.step;
    T* to = static_cast<T*>(out) + i * c.step;
#pragma omp simd
    for (int64_t j = 0; j < c.width; ++j) to[j] = (from[j] - top[j]) - sum[j];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void softmax_backward_columns(const Columns& c, const void* grad,
                                                    const void* result, void* out) {
  const T *g = static_cast<const T*>(grad), *y = static_cast<const T*>(result);
  T part[kColumns], sum[kColumns];
  total_columns(c.n, c.width, part, sum, [&](int64_t i) {
    return [u = g + i * c.step, v = y + i * c.step](int64_t j) { return u[j] * v[j]; };
  });
  for (int64_t i = 0; i < c.n; ++i) {
    const T *u = g + i * c.step, *v = y + i * c.step;
    T* to = static_cast<T*>(out) + i * c.step;
#pragma omp simd
    for (int64_t j = 0; j < c.width; ++j) to[j] = v[j] * (u[j] - sum[j]);
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void log_softmax_backward_columns(const Columns& c, const void* grad,
                                                        const void* result, void* out) {
  const T *g = static_cast<const T*>(grad), *y = static_cast<const T*>(result);
  T part[kColumns], sum[kColumns];
  total_columns(c.n, c.width, part, sum,
                [&](int64_t i) { return [u = g + i * c.step](int64_t j) { return u[j]; }; });
  for (int64_t i = 0; i < c.n; ++i) {
    const T *u = g + i * c.step, *v = y + i * c.step;
    T* to = static_cast<T*>(out) + i * c.step;
#pragma omp simd
    for (int64_t j = 0; j < c.width; ++j) to[j] = u[j] - vec::exp(v[j]) * sum[j];
  }
}

template <typename T>
constexpr flambeau::softmax::Loops loops_of() {
  return {&softmax<T>,
          &log_softmax<T>,
          &softmax_backward<T>,
          &log_softmax_backward<T>,
          &softmax_columns<T>,
          &log_softmax_columns<T>,
          &softmax_backward_columns<T>,
          &log_softmax_backward_columns<T>};
}

}  // namespace

extern const flambeau::softmax::Loops FLAMBEAU_LOOPS(softmax_rows)[2];
const flambeau::softmax::Loops FLAMBEAU_LOOPS(softmax_rows)[2] = {loops_of<float>(),
                                                                  loops_of<double>()};

}  // namespace flambeau::loops
