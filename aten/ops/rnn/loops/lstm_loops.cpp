// One step of a long short-term memory between its products, compiled once per instruction set.
// Formula: that of lstm_cpu.cpp.
// Accumulates in: the type itself, float32 or float64.
// NaN, infinity: both follow IEEE arithmetic; infinite sums give gates of 0, 1 or -1.
// Error: that of lstm_cpu.cpp.
// Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000.
#include "aten/ops/rnn/lstm_loops.h"

#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

using flambeau::lstm::Cells;

template <typename T>
[[gnu::always_inline]] inline void sigmoids(int64_t n, const T* in, T* out) {
  if constexpr (requires(lanes_t<T> x) {
                  { vec::sigmoid(x) } -> vec::Lanewise;
                }) {
    each_lanes(n, out, [](auto x) __attribute__((always_inline)) { return vec::sigmoid(x); }, in);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = vec::sigmoid(in[i]);
  }
}

template <typename T>
[[gnu::always_inline]] inline void tanhs(int64_t n, const T* in, T* out) {
  if constexpr (requires(lanes_t<T> x) {
                  { vec::tanh(x) } -> vec::Lanewise;
                }) {
    each_lanes(n, out, [](auto x) __attribute__((always_inline)) { return vec::tanh(x); }, in);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = vec::tanh(in[i]);
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void step(const Cells& of, void* gates, const void* before, void* after,
                                void* output) {
  const int64_t n = of.hidden;
  for (int64_t r = 0; r < of.rows; ++r) {
    T* const g = static_cast<T*>(gates) + 4 * n * r;
    const T* const c0 = static_cast<const T*>(before) + n * r;
    T* const c1 = static_cast<T*>(after) + n * r;
    T* const h = static_cast<T*>(output) + n * r;
    sigmoids(2 * n, g, g);
    tanhs(n, g + 2 * n, g + 2 * n);
    sigmoids(n, g + 3 * n, g + 3 * n);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) c1[j] = g[n + j] * c0[j] + g[j] * g[2 * n + j];
    tanhs(n, c1, h);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) h[j] *= g[3 * n + j];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void backward(const Cells& of, const void* gates, const void* before,
                                    const void* after, const void* grad_hidden, void* grad_state,
                                    void* grad_gates) {
  const int64_t n = of.hidden;
  for (int64_t r = 0; r < of.rows; ++r) {
    const T* const g = static_cast<const T*>(gates) + 4 * n * r;
    const T* const c0 = static_cast<const T*>(before) + n * r;
    const T* const dh = static_cast<const T*>(grad_hidden) + n * r;
    T* const dc = static_cast<T*>(grad_state) + n * r;
    T* const d = static_cast<T*>(grad_gates) + 4 * n * r;
    T* const squashed = d + 2 * n;  // tanh of the cell state, until this part of d is written
    tanhs(n, static_cast<const T*>(after) + n * r, squashed);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T i = g[j], f = g[n + j], content = g[2 * n + j], o = g[3 * n + j];
      const T wide = dc[j] + dh[j] * o * (T(1) - squashed[j] * squashed[j]);
      d[3 * n + j] = dh[j] * squashed[j] * o * (T(1) - o);
      d[j] = wide * content * i * (T(1) - i);
      d[n + j] = wide * c0[j] * f * (T(1) - f);
      d[2 * n + j] = wide * i * (T(1) - content * content);
      dc[j] = wide * f;
    }
  }
}

}  // namespace

extern const flambeau::lstm::Loops FLAMBEAU_LOOPS(lstm_cells)[2];
const flambeau::lstm::Loops FLAMBEAU_LOOPS(lstm_cells)[2] = {{&step<float>, &backward<float>},
                                                             {&step<double>, &backward<double>}};

}  // namespace flambeau::loops
