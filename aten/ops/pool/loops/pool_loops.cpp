// Means over windows, compiled once per instruction set. The rows of a band of windows are added
// up, all columns at once, and then each window's share of that row: elements are read once where
// windows do not overlap.
// Formula: out[w] = sum of the window's elements / divisor.
// Accumulates in: float32 is summed in float32 for a few rows and then in float64.
// NaN, infinity: both follow IEEE arithmetic.
// Error: 2e-7 relative in float32, 1e-14 in float64 (test/ops/test_pool.py).
// Source: by definition.
#include "aten/ops/pool/pool_loops.h"

#include "aten/cpu/loop_sums.h"

namespace flambeau::loops {
namespace {

using pool::Divisor;
using pool::Range;
using pool::Wide;
using pool::Windows;

template <typename W>
[[gnu::always_inline]] inline W sum_of(const W* x, int64_t n) {
  W sum = 0;
  if (n < 16) {
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// One window as wide as the plane: its rows are one run of memory.
template <typename T>
[[gnu::always_inline]] inline Wide<T> sum_of_slab(const Windows& w, const Range& a, const Range& b,
                                                  const T* plane) {
  Wide<T> sum = 0;
  for (int64_t x = a.begin; x < a.end; ++x) {
    const T* from = plane + (x * w.in[1] + b.begin) * w.in[2];
    const int64_t n = b.size() * w.in[2];
    if constexpr (is_integer<T>()) {
      sum += sum_of(from, n);
    } else {
      sum += total<T>(n, [from](int64_t i) { return from[i]; });
    }
  }
  return sum;
}

// The sums of each column over the rows of a band of windows.
template <typename T>
[[gnu::always_inline]] inline void sum_band(const Windows& w, const Range& a, const Range& b,
                                            const T* plane, T* part, Wide<T>* sums) {
  const int64_t width = w.in[2], height = b.size();
  total_columns(a.size() * height, width, part, sums, [&](int64_t i) {
    const int64_t row = (a.begin + i / height) * w.in[1] + b.begin + i % height;
    return [from = plane + row * width](int64_t j) { return from[j]; };
  });
}

template <typename T>
FLAMBEAU_WIDE_VECTORS void mean(const Windows& w, const Divisor& divisor, int64_t planes,
                                const void* in, void* out, void* scratch) {
  Wide<T>* sums = static_cast<Wide<T>*>(scratch);
  T* part = reinterpret_cast<T*>(sums + w.in[2]);
  T* to = static_cast<T*>(out);
  const Range* columns = w.ranges[2];
  const bool whole = w.counts[2] == 1 && columns[0].size() == w.in[2];
  for (int64_t p = 0; p < planes; ++p) {
    const T* plane = static_cast<const T*>(in) + p * w.in[0] * w.in[1] * w.in[2];
    for (int64_t i = 0; i < w.counts[0] * w.counts[1]; ++i) {
      const Range &a = w.ranges[0][i / w.counts[1]], &b = w.ranges[1][i % w.counts[1]];
      if (!whole) sum_band(w, a, b, plane, part, sums);
      for (int64_t k = 0; k < w.counts[2]; ++k) {
        const Range& c = columns[k];
        const Wide<T> sum = whole ? sum_of_slab(w, a, b, plane) : sum_of(sums + c.begin, c.size());
        *to++ = static_cast<T>(sum / static_cast<Wide<T>>(divisor.of(a, b, c)));
      }
    }
  }
}

}  // namespace

extern const pool::MeanLoop FLAMBEAU_LOOPS(pool_mean)[pool::kLoopTypes];
const pool::MeanLoop FLAMBEAU_LOOPS(pool_mean)[pool::kLoopTypes] = {&mean<float>, &mean<double>,
                                                                    &mean<int64_t>};

}  // namespace flambeau::loops
