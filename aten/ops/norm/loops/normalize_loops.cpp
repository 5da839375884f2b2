// Normalisation of channels and its gradient, compiled once per instruction set. A channel is read
// three times, mostly from cache. Sums are kept in float64, and in the tensor's type within a
// block.
#include "aten/ops/norm/normalize_loops.h"

#include "aten/cpu/loop_sums.h"

namespace flambeau::loops {
namespace {

using norm::Planes;

template <typename T>
FLAMBEAU_WIDE_VECTORS void forward(const Planes& p, int64_t first, int64_t last, double eps,
                                   const void* input, void* normal, void* center, void* variance) {
  const double count = static_cast<double>(p.outer * p.inner);
  for (int64_t channel = first; channel < last; ++channel) {
    const T* from = static_cast<const T*>(input) + channel * p.inner;
    T* to = static_cast<T*>(normal) + channel * p.inner;
    const int64_t step = p.channels * p.inner;
    double sum = 0;
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* x = from + o * step;
      sum += total<T>(p.inner, [x](int64_t i) { return x[i]; });
    }
    const T mean = static_cast<T>(sum / count);
    double squares = 0;
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* x = from + o * step;
      squares += total<T>(p.inner, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    }
    const double spread = squares / count;
    const T scale = static_cast<T>(1 / vec::sqrt(spread + eps));
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* x = from + o * step;
      T* y = to + o * step;
#pragma omp simd
      for (int64_t i = 0; i < p.inner; ++i) y[i] = (x[i] - mean) * scale;
    }
    static_cast<T*>(center)[channel] = mean;
    static_cast<T*>(variance)[channel] = static_cast<T>(spread);
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void backward(const Planes& p, int64_t first, int64_t last, double eps,
                                    const void* grad_normal, const void* grad_variance,
                                    const void* normal, const void* variance, void* grad_input) {
  const double count = static_cast<double>(p.outer * p.inner);
  for (int64_t channel = first; channel < last; ++channel) {
    const int64_t offset = channel * p.inner, step = p.channels * p.inner;
    double sum = 0, along = 0;
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* g = static_cast<const T*>(grad_normal) + offset + o * step;
      const T* y = static_cast<const T*>(normal) + offset + o * step;
      sum += total<T>(p.inner, [g](int64_t i) { return g[i]; });
      along += total<T>(p.inner, [g, y](int64_t i) { return g[i] * y[i]; });
    }
    const double spread = static_cast<double>(static_cast<const T*>(variance)[channel]) + eps;
    const double wide_scale = 1 / vec::sqrt(spread);
    double slope = wide_scale * along / count;
    if (grad_variance) {
      const T g = static_cast<const T*>(grad_variance)[channel];
      slope -= 2 * static_cast<double>(g) / (wide_scale * count);
    }
    const T mean = static_cast<T>(sum / count), scale = static_cast<T>(wide_scale),
            pull = static_cast<T>(slope);
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* g = static_cast<const T*>(grad_normal) + offset + o * step;
      const T* y = static_cast<const T*>(normal) + offset + o * step;
      T* x = static_cast<T*>(grad_input) + offset + o * step;
#pragma omp simd
      for (int64_t i = 0; i < p.inner; ++i) x[i] = (g[i] - mean) * scale - y[i] * pull;
    }
  }
}

}  // namespace

extern const norm::Loops FLAMBEAU_LOOPS(normalize)[2];
const norm::Loops FLAMBEAU_LOOPS(normalize)[2] = {{&forward<float>, &backward<float>},
                                                  {&forward<double>, &backward<double>}};

}  // namespace flambeau::loops
