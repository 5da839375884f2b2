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

// The sum of the `inner` columns of a group.
[[gnu::always_inline]] inline double fold(const double* columns, int64_t group, int64_t inner) {
  double sum = 0;
  for (int64_t i = 0; i < inner; ++i) sum += columns[group * inner + i];
  return sum;
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void forward_rows(const Planes& p, int64_t first, int64_t last, double eps,
                                        const void* input, void* normal, void* center,
                                        void* variance, void* scratch) {
  const int64_t width = (last - first) * p.inner;
  const auto count = static_cast<double>(p.outer * p.inner);
  double* sums = static_cast<double*>(scratch);
  T *part = reinterpret_cast<T*>(sums + width), *mean = reinterpret_cast<T*>(sums + 2 * width),
    *scale = reinterpret_cast<T*>(sums + 3 * width);
  const auto row_of = [&](int64_t i) {
    return static_cast<const T*>(input) + (i * p.channels + first) * p.inner;
  };
  total_columns(p.outer, width, part, sums,
                [&](int64_t i) { return [x = row_of(i)](int64_t j) { return x[j]; }; });
  for (int64_t c = 0; c < last - first; ++c) {
    const T value = static_cast<T>(fold(sums, c, p.inner) / count);
    static_cast<T*>(center)[first + c] = value;
    for (int64_t i = 0; i < p.inner; ++i) mean[c * p.inner + i] = value;
  }
  total_columns(p.outer, width, part, sums, [&](int64_t i) {
    return [x = row_of(i), mean](int64_t j) { return (x[j] - mean[j]) * (x[j] - mean[j]); };
  });
  for (int64_t c = 0; c < last - first; ++c) {
    const double spread = fold(sums, c, p.inner) / count;
    static_cast<T*>(variance)[first + c] = static_cast<T>(spread);
    const T value = static_cast<T>(1 / vec::sqrt(spread + eps));
    for (int64_t i = 0; i < p.inner; ++i) scale[c * p.inner + i] = value;
  }
  for (int64_t i = 0; i < p.outer; ++i) {
    const T* x = row_of(i);
    T* y = static_cast<T*>(normal) + (i * p.channels + first) * p.inner;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean[j]) * scale[j];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void backward_rows(const Planes& p, int64_t first, int64_t last, double eps,
                                         const void* grad_normal, const void* grad_variance,
                                         const void* normal, const void* variance, void* grad_input,
                                         void* scratch) {
  const int64_t width = (last - first) * p.inner;
  const auto count = static_cast<double>(p.outer * p.inner);
  double *sums = static_cast<double*>(scratch), *along = sums + width;
  T *pull = reinterpret_cast<T*>(sums + 2 * width), *scale = reinterpret_cast<T*>(sums + 3 * width),
    *mean = reinterpret_cast<T*>(sums + 4 * width);
  const auto row_of = [&](const void* data, int64_t i) {
    return static_cast<const T*>(data) + (i * p.channels + first) * p.inner;
  };
  total_columns(p.outer, width, pull, sums, [&](int64_t i) {
    return [g = row_of(grad_normal, i)](int64_t j) { return g[j]; };
  });
  total_columns(p.outer, width, pull, along, [&](int64_t i) {
    return [g = row_of(grad_normal, i), y = row_of(normal, i)](int64_t j) { return g[j] * y[j]; };
  });
  for (int64_t c = 0; c < last - first; ++c) {
    const double spread = static_cast<double>(static_cast<const T*>(variance)[first + c]);
    const double wide = 1 / vec::sqrt(spread + eps);
    double slope = wide * fold(along, c, p.inner) / count;
    const T* g_variance = static_cast<const T*>(grad_variance);
    if (g_variance) slope -= 2 * static_cast<double>(g_variance[first + c]) / (wide * count);
    const T average = static_cast<T>(fold(sums, c, p.inner) / count);
    for (int64_t j = c * p.inner; j < (c + 1) * p.inner; ++j) {
      pull[j] = static_cast<T>(slope);
      scale[j] = static_cast<T>(wide);
      mean[j] = average;
    }
  }
  for (int64_t i = 0; i < p.outer; ++i) {
    const T *g = row_of(grad_normal, i), *y = row_of(normal, i);
    T* x = static_cast<T*>(grad_input) + (i * p.channels + first) * p.inner;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) x[j] = (g[j] - mean[j]) * scale[j] - y[j] * pull[j];
  }
}

}  // namespace

extern const norm::Loops FLAMBEAU_LOOPS(normalize)[2];
const norm::Loops FLAMBEAU_LOOPS(normalize)[2] = {
    {&forward<float>, &backward<float>, &forward_rows<float>, &backward_rows<float>},
    {&forward<double>, &backward<double>, &forward_rows<double>, &backward_rows<double>}};

}  // namespace flambeau::loops
