// Pooling of channels-last images, compiled once per instruction set: all channels of a pixel at
// once.
// Formula: means and maxima of windows, those of pool_cpu.cpp.
// Accumulates in: float32 means are summed in float32 for a few pixels and then in float64.
// NaN, infinity: NaN wins in maxima; means follow IEEE arithmetic.
// Error: maxima are exact; means 2e-7 relative in float32 (test/ops/test_pool.py).
// Source: by definition.
#include "aten/cpu/loop_sums.h"
#include "aten/ops/pool/pool_loops.h"

namespace flambeau::loops {
namespace {

using pool::Divisor;
using pool::Range;
using pool::Wide;
using pool::Windows;

// Calls body(output pixel, input image, ranges) for every window of the rows.
template <typename Body>
[[gnu::always_inline]] inline void for_each_window(const Windows& w, int64_t first, int64_t last,
                                                   const Body& body) {
  const int64_t rows = w.counts[0] * w.counts[1];
  for (int64_t r = first; r < last; ++r) {
    const int64_t image = r / rows, row = r % rows;
    const Range &a = w.ranges[0][row / w.counts[1]], &b = w.ranges[1][row % w.counts[1]];
    for (int64_t k = 0; k < w.counts[2]; ++k) {
      body(r * w.counts[2] + k, image * w.in[0] * w.in[1] * w.in[2], a, b, w.ranges[2][k]);
    }
  }
}

// Calls body(input pixel) for every place of a window.
template <typename Body>
[[gnu::always_inline]] inline void for_each_place(const Windows& w, const Range& a, const Range& b,
                                                  const Range& c, const Body& body) {
  for (int64_t x = a.begin; x < a.end; x += a.step) {
    for (int64_t y = b.begin; y < b.end; y += b.step) {
      for (int64_t z = c.begin; z < c.end; z += c.step) body((x * w.in[1] + y) * w.in[2] + z);
    }
  }
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void mean(const Windows& w, const Divisor& divisor, int64_t channels,
                                int64_t first, int64_t last, const void* in, void* out,
                                void* scratch) {
  Wide<T>* sums = static_cast<Wide<T>*>(scratch);
  T* part = reinterpret_cast<T*>(sums + channels);
  for_each_window(
      w, first, last, [&](int64_t o, int64_t image, const auto& a, const auto& b, const auto& c) {
        const T* from = static_cast<const T*>(in) + image * channels;
        T* to = static_cast<T*>(out) + o * channels;
        const int64_t width = c.size(), height = b.size();
        total_columns(a.size() * height * width, channels, part, sums, [&](int64_t i) {
          const int64_t line = i / width;
          const int64_t pixel =
              ((a.begin + line / height) * w.in[1] + b.begin + line % height) * w.in[2] + c.begin +
              i % width;
          return [row = from + pixel * channels](int64_t j) { return row[j]; };
        });
        const Wide<T> by = static_cast<Wide<T>>(divisor.of(a, b, c));
#pragma omp simd
        for (int64_t j = 0; j < channels; ++j) to[j] = static_cast<T>(sums[j] / by);
      });
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void max(const Windows& w, int64_t channels, int64_t first, int64_t last,
                               const void* in, void* values, int64_t* places, void* scratch) {
  using Place = typename pool::PlaceOf<T>::type;
  Place* best = static_cast<Place*>(scratch);
  for_each_window(w, first, last,
                  [&](int64_t o, int64_t image, const auto& a, const auto& b, const auto& c) {
                    const T* from = static_cast<const T*>(in) + image * channels;
                    T* to = static_cast<T*>(values) + o * channels;
                    const int64_t start = (a.begin * w.in[1] + b.begin) * w.in[2] + c.begin;
                    for (int64_t j = 0; j < channels; ++j) {
                      to[j] = from[start * channels + j];
                      best[j] = static_cast<Place>(start);
                    }
                    for_each_place(w, a, b, c, [&](int64_t pixel) {
                      const T* row = from + pixel * channels;
                      const auto place = static_cast<Place>(pixel);
#pragma omp simd
                      for (int64_t j = 0; j < channels; ++j) {
                        const T x = row[j], top = to[j];
                        const bool better = pool::takes_place(x, top);
                        to[j] = better ? x : top;
                        best[j] = better ? place : best[j];
                      }
                    });
                    for (int64_t j = 0; j < channels; ++j) places[o * channels + j] = best[j];
                  });
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void spread(const Windows& w, const Divisor& divisor, int64_t channels,
                                  const void* grad, void* grad_input, void* scratch) {
  T* share = static_cast<T*>(scratch);
  for_each_window(w, 0, w.counts[0] * w.counts[1],
                  [&](int64_t o, int64_t, const auto& a, const auto& b, const auto& c) {
                    const T* from = static_cast<const T*>(grad) + o * channels;
                    const T by = static_cast<T>(divisor.of(a, b, c));
#pragma omp simd
                    for (int64_t j = 0; j < channels; ++j) share[j] = from[j] / by;
                    for_each_place(w, a, b, c, [&](int64_t pixel) {
                      T* to = static_cast<T*>(grad_input) + pixel * channels;
#pragma omp simd
                      for (int64_t j = 0; j < channels; ++j) to[j] += share[j];
                    });
                  });
}

}  // namespace

extern const pool::ImageLoops FLAMBEAU_LOOPS(pool_images)[pool::kLoopTypes];
const pool::ImageLoops FLAMBEAU_LOOPS(pool_images)[pool::kLoopTypes] = {
    {&mean<float>, &max<float>, &spread<float>},
    {&mean<double>, &max<double>, &spread<double>},
    {&mean<int64_t>, &max<int64_t>, nullptr}};

}  // namespace flambeau::loops
