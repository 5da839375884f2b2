// Normalisation of channels and its gradient, compiled once per instruction set. A channel is read
// three times, mostly from cache.
// Formula: that of normalize_cpu.cpp: (input - center) / sqrt(variance + eps) * weight + bias.
// Accumulates in: float64; the tensor's type within a block.
// NaN, infinity: a NaN or infinity gives NaN to its whole group.
// Error: that of normalize_cpu.cpp.
// Source: by definition.
#include "aten/ops/norm/normalize_loops.h"

#include "aten/cpu/loop_sums.h"

namespace flambeau::loops {
namespace {

using norm::Affine;
using norm::AffineSums;
using norm::Planes;

// y = (x - mean) * scale * weight + bias over the inner elements of a channel.
template <typename T>
[[gnu::always_inline]] inline void scaled_run(const T* x, T mean, T scale, int64_t channel,
                                              int64_t inner, const Affine& affine, T* y) {
  const int64_t at = channel % affine.period * affine.width;
  const T *weight = static_cast<const T*>(affine.weight) + at,
          *bias = static_cast<const T*>(affine.bias) + at;
  if (affine.width == inner && inner > 1) {
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) y[i] = (x[i] - mean) * (scale * weight[i]) + bias[i];
    return;
  }
  const int64_t run = inner / affine.width;
  for (int64_t k = 0; k < affine.width; ++k, x += run, y += run) {
    const T slope = scale * weight[k], shift = bias[k];
#pragma omp simd
    for (int64_t i = 0; i < run; ++i) y[i] = (x[i] - mean) * slope + shift;
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void forward(const Planes& p, int64_t first, int64_t last, double eps,
                                   const void* input, const Affine& affine, void* output,
                                   void* center, void* variance) {
  const double count = static_cast<double>(p.outer * p.inner);
  for (int64_t channel = first; channel < last; ++channel) {
    const T* from = static_cast<const T*>(input) + channel * p.inner;
    T* to = static_cast<T*>(output) + channel * p.inner;
    const int64_t step = p.channels * p.inner;
    double sum = 0;
    for (int64_t o = 0; o < p.outer && p.centered; ++o) {
      const T* x = from + o * step;
      sum += total<T>(p.inner, [x](int64_t i) { return x[i]; });
    }
    const T mean = p.centered ? static_cast<T>(sum / count) : T(0);
    double squares = 0;
    for (int64_t o = 0; o < p.outer; ++o) {
      const T* x = from + o * step;
      squares += total<T>(p.inner, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    }
    const double spread = squares / count;
    const T scale = static_cast<T>(1 / vec::sqrt(spread + eps));
    for (int64_t o = 0; o < p.outer; ++o) {
      scaled_run(from + o * step, mean, scale, channel, p.inner, affine, to + o * step);
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

// How many rows of `width` elements are read as one: short ones do not repay a loop each. Of all
// channels, and as many as leave none over.
[[gnu::always_inline]] inline int64_t joined_rows(const Planes& p, int64_t width) {
  int64_t times = width > 0 && width == p.channels * p.inner ? norm::kJoined / width : 1;
  while (times > 1 && p.outer % times != 0) --times;
  return times > 1 ? times : 1;
}

// Adds the columns of all joined rows to those of the first.
[[gnu::always_inline]] inline void fold_rows(double* columns, int64_t width, int64_t times) {
  for (int64_t r = 1; r < times; ++r) {
    for (int64_t j = 0; j < width; ++j) columns[j] += columns[r * width + j];
  }
}
template <typename T>
[[gnu::always_inline]] inline void repeat_rows(T* columns, int64_t width, int64_t times) {
  for (int64_t j = width; j < width * times; ++j) columns[j] = columns[j - width];
}

// Which of its numbers an inner element of a channel has.
[[gnu::always_inline]] inline int64_t place_of(const Affine& affine, int64_t channel, int64_t i,
                                               int64_t inner) {
  return channel % affine.period * affine.width + i / (inner / affine.width);
}

template <typename T>
[[gnu::always_inline]] inline void scale_columns(const Affine& affine, int64_t channel,
                                                 int64_t inner, T factor, T* scale, T* shift) {
  for (int64_t i = 0; i < inner; ++i) {
    const int64_t at = place_of(affine, channel, i, inner);
    scale[i] = factor * static_cast<const T*>(affine.weight)[at];
    shift[i] = static_cast<const T*>(affine.bias)[at];
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void forward_rows(const Planes& p, int64_t first, int64_t last, double eps,
                                        const void* input, const Affine& affine, void* output,
                                        void* center, void* variance, void* scratch) {
  const int64_t width = (last - first) * p.inner, times = joined_rows(p, width);
  const int64_t all = width * times, rows = p.outer / times;
  const auto count = static_cast<double>(p.outer * p.inner);
  double* sums = static_cast<double*>(scratch);
  const auto array = [&](int64_t k) { return reinterpret_cast<T*>(sums + k * all); };
  T *part = array(1), *mean = array(2), *scale = array(3), *shift = array(4);
  const auto place = [&](int64_t i) { return (i * times * p.channels + first) * p.inner; };
  const auto row_of = [&](int64_t i) { return static_cast<const T*>(input) + place(i); };
  total_columns(rows, all, part, sums,
                [&](int64_t i) { return [x = row_of(i)](int64_t j) { return x[j]; }; });
  fold_rows(sums, width, times);
  for (int64_t c = 0; c < last - first; ++c) {
    const T value = static_cast<T>(fold(sums, c, p.inner) / count);
    static_cast<T*>(center)[first + c] = value;
    for (int64_t i = 0; i < p.inner; ++i) mean[c * p.inner + i] = value;
  }
  repeat_rows(mean, width, times);
  total_columns(rows, all, part, sums, [&](int64_t i) {
    return [x = row_of(i), mean](int64_t j) { return (x[j] - mean[j]) * (x[j] - mean[j]); };
  });
  fold_rows(sums, width, times);
  for (int64_t c = 0; c < last - first; ++c) {
    const double spread = fold(sums, c, p.inner) / count;
    static_cast<T*>(variance)[first + c] = static_cast<T>(spread);
    scale_columns(affine, first + c, p.inner, static_cast<T>(1 / vec::sqrt(spread + eps)),
                  scale + c * p.inner, shift + c * p.inner);
  }
  repeat_rows(scale, width, times);
  repeat_rows(shift, width, times);
  for (int64_t i = 0; i < rows; ++i) {
    const T* x = row_of(i);
    T* y = static_cast<T*>(output) + place(i);
#pragma omp simd
    for (int64_t j = 0; j < all; ++j) y[j] = (x[j] - mean[j]) * scale[j] + shift[j];
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

// Sums over a channel of grad * weight, and of the same times the deviation from the mean.
struct ChannelSums {
  double grad = 0, along = 0;
};

// Of runs of elements that have one weight each.
template <typename T>
[[gnu::always_inline]] inline void add_runs(const T* g, const T* x, T mean, double scale,
                                            const T* weight, int64_t width, int64_t run,
                                            const AffineSums& own, ChannelSums& sums) {
  for (int64_t k = 0; k < width; ++k, g += run, x += run) {
    const double grad = total<T>(run, [g](int64_t i) { return g[i]; });
    const double along = total<T>(run, [g, x, mean](int64_t i) { return g[i] * (x[i] - mean); });
    sums.grad += grad * static_cast<double>(weight[k]);
    sums.along += along * static_cast<double>(weight[k]);
    if (own.weight) own.weight[k] += along * scale;
    if (own.bias) own.bias[k] += grad;
  }
}

// Of elements with weights of their own, whose sums are kept in T in `part` meanwhile.
template <typename T>
[[gnu::always_inline]] inline void add_elements(const T* g, const T* x, T mean, T scale,
                                                const T* weight, int64_t n, T* part,
                                                ChannelSums& sums) {
  constexpr int64_t kBlock = 1024;
  T* other = part + n;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    T grad = 0, along = 0;
#pragma omp simd reduction(+ : grad, along)
    for (int64_t i = begin; i < end; ++i) {
      const T deviation = x[i] - mean, scaled = g[i] * weight[i];
      grad += scaled;
      along += scaled * deviation;
      part[i] += g[i] * (deviation * scale);
      other[i] += g[i];
    }
    sums.grad += static_cast<double>(grad);
    sums.along += static_cast<double>(along);
  }
}

// Adds what `part` holds of both sums to `own` and clears it.
template <typename T>
[[gnu::always_inline]] inline void settle(T* part, int64_t n, const AffineSums& own) {
  for (int64_t i = 0; own.weight && i < n; ++i) own.weight[i] += static_cast<double>(part[i]);
  for (int64_t i = 0; own.bias && i < n; ++i) own.bias[i] += static_cast<double>(part[n + i]);
  for (int64_t i = 0; i < 2 * n; ++i) part[i] = 0;
}

// x = (grad * weight - drop) * scale - (input - mean) * pull over the inner elements of a channel.
// The difference comes first: where gradients have a large mean, scaled ones would cancel.
template <typename T>
[[gnu::always_inline]] inline void pulled_run(const T* g, const T* from, T mean, T scale, T pull,
                                              T drop, const T* weight, int64_t width, int64_t inner,
                                              T* x) {
  if (width == inner && inner > 1) {
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i)
      x[i] = (g[i] * weight[i] - drop) * scale - (from[i] - mean) * pull;
    return;
  }
  const int64_t run = inner / width;
  for (int64_t k = 0; k < width; ++k, g += run, from += run, x += run) {
    const T own = weight[k];
#pragma omp simd
    for (int64_t i = 0; i < run; ++i) x[i] = (g[i] * own - drop) * scale - (from[i] - mean) * pull;
  }
}

// Over a channel whose elements begin at `g` and `x`, `step` apart in each of `outer` rows.
template <typename T>
[[gnu::always_inline]] inline ChannelSums add_channel(const Planes& p, const T* g, const T* x,
                                                      T mean, double scale, const T* weight,
                                                      int64_t width, T* part, const AffineSums& own,
                                                      int64_t& added) {
  constexpr int64_t kRun = 32;  // additions in T before they are settled
  const int64_t step = p.channels * p.inner;
  ChannelSums found;
  for (int64_t o = 0; o < p.outer; ++o, g += step, x += step) {
    if (width != p.inner || p.inner == 1) {
      add_runs(g, x, mean, scale, weight, width, p.inner / width, own, found);
      continue;
    }
    add_elements(g, x, mean, static_cast<T>(scale), weight, p.inner, part, found);
    if (++added % kRun == 0) settle(part, p.inner, own);
  }
  return found;
}

template <typename T>
[[gnu::always_inline]] inline double deviation(const void* variance, int64_t channel, double eps) {
  return 1 / vec::sqrt(static_cast<double>(static_cast<const T*>(variance)[channel]) + eps);
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void affine_backward(const Planes& p, int64_t first, int64_t last, double eps,
                                           const void* grad, const void* input, const void* center,
                                           const void* variance, const Affine& affine,
                                           const AffineSums& sums, void* grad_input,
                                           void* scratch) {
  const auto count = static_cast<double>(p.outer * p.inner);
  T* part = static_cast<T*>(scratch);
  for (int64_t i = 0; i < 2 * p.inner; ++i) part[i] = 0;
  for (int64_t channel = first, added = 0; channel < last; ++channel) {
    const int64_t at = channel % affine.period * affine.width, offset = channel * p.inner;
    const AffineSums own{sums.weight ? sums.weight + at : nullptr,
                         sums.bias ? sums.bias + at : nullptr};
    const T *weight = static_cast<const T*>(affine.weight) + at,
            *g = static_cast<const T*>(grad) + offset, *x = static_cast<const T*>(input) + offset;
    const T mean = static_cast<const T*>(center)[channel];
    const double scale = deviation<T>(variance, channel, eps);
    const ChannelSums found =
        add_channel(p, g, x, mean, scale, weight, affine.width, part, own, added);
    // Other channels have other sums unless all share theirs.
    if (affine.width == p.inner && (affine.period > 1 || channel + 1 == last)) {
      settle(part, p.inner, own);
    }
    const T pull = static_cast<T>(scale * scale * scale * found.along / count),
            drop = p.centered ? static_cast<T>(found.grad / count) : T(0);
    for (int64_t o = 0; o < p.outer; ++o) {
      const int64_t begin = o * p.channels * p.inner;
      pulled_run(g + begin, x + begin, mean, static_cast<T>(scale), pull, drop, weight,
                 affine.width, p.inner, static_cast<T*>(grad_input) + offset + begin);
    }
  }
}

// The numbers of each column of rows:
// grad_input = (grad * weight - drop) * scale - (input - mean) * pull.
template <typename T>
struct Columns {
  T *weight, *scale, *pull, *drop;
};

// From the sums of the columns; adds those of weight and bias to `own`.
template <typename T>
[[gnu::always_inline]] inline void find_columns(const Planes& p, int64_t channel,
                                                const double* sums, const double* along,
                                                double scale, const Affine& affine,
                                                const AffineSums& own, int64_t begin,
                                                const Columns<T>& columns) {
  const auto count = static_cast<double>(p.outer * p.inner);
  const int64_t end = begin + p.inner;
  ChannelSums found;
  for (int64_t j = begin; j < end; ++j) {
    const int64_t at = place_of(affine, channel, j - begin, p.inner);
    const double weight = static_cast<double>(static_cast<const T*>(affine.weight)[at]);
    found.grad += sums[j] * weight;
    found.along += along[j] * weight;
    if (own.weight) own.weight[at] += along[j] * scale;
    if (own.bias) own.bias[at] += sums[j];
    columns.weight[j] = static_cast<T>(weight);
  }
  for (int64_t j = begin; j < end; ++j) {
    columns.pull[j] = static_cast<T>(scale * scale * scale * found.along / count);
    columns.drop[j] = static_cast<T>(found.grad / count);
    columns.scale[j] = static_cast<T>(scale);
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void affine_backward_rows(const Planes& p, int64_t first, int64_t last,
                                                double eps, const void* grad, const void* input,
                                                const void* center, const void* variance,
                                                const Affine& affine, const AffineSums& own,
                                                void* grad_input, void* scratch) {
  const int64_t width = (last - first) * p.inner, times = joined_rows(p, width);
  const int64_t all = width * times, rows = p.outer / times;
  double *sums = static_cast<double*>(scratch), *along = sums + all;
  const auto array = [&](int64_t k) { return reinterpret_cast<T*>(sums + k * all); };
  T *weight = array(2), *mean = array(3), *pull = array(4), *drop = array(5), *scale = array(6);
  const auto place = [&](int64_t i) { return (i * times * p.channels + first) * p.inner; };
  const auto row_of = [&](const void* data, int64_t i) {
    return static_cast<const T*>(data) + place(i);
  };
  const T* const centers = static_cast<const T*>(center) + first;
  for (int64_t j = 0; j < all; ++j) mean[j] = centers[j % width / p.inner];
  total_columns(rows, all, weight, sums,
                [&](int64_t i) { return [g = row_of(grad, i)](int64_t j) { return g[j]; }; });
  total_columns(rows, all, weight, along, [&](int64_t i) {
    return [g = row_of(grad, i), x = row_of(input, i), mean](int64_t j) {
      return g[j] * (x[j] - mean[j]);
    };
  });
  fold_rows(sums, width, times), fold_rows(along, width, times);
  T* const columns[] = {weight, scale, pull, drop};
  for (int64_t c = first; c < last; ++c) {
    find_columns<T>(p, c, sums, along, deviation<T>(variance, c, eps), affine, own,
                    (c - first) * p.inner, {weight, scale, pull, drop});
  }
  for (T* const* c = columns; c < columns + 4; ++c) repeat_rows(*c, width, times);
  for (int64_t i = 0; i < rows; ++i) {
    const T *g = row_of(grad, i), *from = row_of(input, i);
    T* x = static_cast<T*>(grad_input) + place(i);
#pragma omp simd
    for (int64_t j = 0; j < all; ++j)
      x[j] = (g[j] * weight[j] - drop[j]) * scale[j] - (from[j] - mean[j]) * pull[j];
  }
}

}  // namespace

extern const norm::Loops FLAMBEAU_LOOPS(normalize)[2];
const norm::Loops FLAMBEAU_LOOPS(normalize)[2] = {
    {&forward<float>, &backward<float>, &forward_rows<float>, &backward_rows<float>,
     &affine_backward<float>, &affine_backward_rows<float>},
    {&forward<double>, &backward<double>, &forward_rows<double>, &backward_rows<double>,
     &affine_backward<double>, &affine_backward_rows<double>}};

}  // namespace flambeau::loops
