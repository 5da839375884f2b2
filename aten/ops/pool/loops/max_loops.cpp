// Maxima over windows of planes and their places, compiled once per instruction set. First the
// largest element of every column of a band of windows, all columns at once, then each window's
// among its columns.
// Formula: the maximum of each window and its place; ties go to the lower place.
// Accumulates in: none: values are moved.
// NaN, infinity: NaN wins; of several NaN the one at the highest place is taken: among columns that
// is part of the order.
// Error: none: exact.
// Source: by definition.
#include "aten/cpu/loop_support.h"
#include "aten/ops/pool/pool_loops.h"

namespace flambeau::loops {
namespace {

using pool::PlaceOf;
using pool::Range;
using pool::Windows;

template <typename T>
using Place = typename PlaceOf<T>::type;

// Whether x at `place` is taken instead of the best so far, which may lie at a higher place.
template <typename T>
[[gnu::always_inline]] inline bool comes_first(T x, Place<T> place, T top, Place<T> best) {
  const bool nan = x != x, top_nan = top != top;
  return (x > top) | (nan & (!top_nan | (place > best))) | ((x == top) & (place < best));
}

// Of each of the columns.
template <typename T>
struct Best {
  T* top;
  Place<T>* place;
};

template <typename T>
[[gnu::always_inline]] inline void best_of_columns(const Windows& w, const Range& a, const Range& b,
                                                   const T* plane, const Best<T>& columns) {
  const int64_t width = w.in[2];
  bool first = true;
  for (int64_t x = a.begin; x < a.end; x += a.step) {
    for (int64_t y = b.begin; y < b.end; y += b.step, first = false) {
      const int64_t start = (x * w.in[1] + y) * width;
      const T* row = plane + start;
      const auto at = static_cast<Place<T>>(start);
      if (first) {
        for (int64_t z = 0; z < width; ++z) {
          columns.top[z] = row[z];
          columns.place[z] = at + static_cast<Place<T>>(z);
        }
        continue;
      }
#pragma omp simd
      for (int64_t z = 0; z < width; ++z) {
        const T value = row[z], top = columns.top[z];
        const bool better = pool::takes_place(value, top);
        columns.top[z] = better ? value : top;
        columns.place[z] = better ? at + static_cast<Place<T>>(z) : columns.place[z];
      }
    }
  }
}

// Of windows of one size that follow each other at a distance known at compile time.
template <int kStep, typename T>
[[gnu::always_inline]] inline void best_of_run(const Best<T>& columns, int64_t size, int64_t apart,
                                               int64_t count, const Best<T>& out) {
  for (int64_t i = 0; i < count; ++i) {
    out.top[i] = columns.top[i * kStep];
    out.place[i] = columns.place[i * kStep];
  }
  for (int64_t j = apart; j < size; j += apart) {
    const T* top = columns.top + j;
    const Place<T>* place = columns.place + j;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T value = top[i * kStep], best = out.top[i];
      const Place<T> at = place[i * kStep], before = out.place[i];
      const bool better = comes_first<T>(value, at, best, before);
      out.top[i] = better ? value : best;
      out.place[i] = better ? at : before;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void best_of_window(const Best<T>& columns, const Range& c, T* top,
                                                  Place<T>* place) {
  T best = columns.top[c.begin];
  Place<T> at = columns.place[c.begin];
  for (int64_t z = c.begin + c.step; z < c.end; z += c.step) {
    const bool better = comes_first<T>(columns.top[z], columns.place[z], best, at);
    best = better ? columns.top[z] : best;
    at = better ? columns.place[z] : at;
  }
  *top = best;
  *place = at;
}

// Windows first <= k < last have one size and follow each other `step` apart.
struct Run {
  int64_t first, last, step;
};
inline Run longest_run(const Range* c, int64_t count) {
  Run run{0, 0, 0};
  if (count < 3) return run;
  const int64_t middle = count / 2, step = c[middle].begin - c[middle - 1].begin;
  const auto alike = [&](int64_t k) {
    return c[k].size() == c[middle].size() && c[k].begin - c[middle].begin == (k - middle) * step;
  };
  run = {middle, middle + 1, step};
  while (run.first > 0 && alike(run.first - 1)) --run.first;
  while (run.last < count && alike(run.last)) ++run.last;
  return run;
}

template <typename T>
[[gnu::always_inline]] inline void best_of_windows(const Windows& w, const Run& run,
                                                   const Best<T>& columns, const Best<T>& out) {
  const Range* c = w.ranges[2];
  const bool together = run.step >= 1 && run.step <= 3;
  for (int64_t k = 0; k < w.counts[2]; ++k) {
    if (together && k == run.first) k = run.last;
    if (k < w.counts[2]) best_of_window(columns, c[k], out.top + k, out.place + k);
  }
  if (!together) return;
  const Range& model = c[run.first];
  const Best<T> from{columns.top + model.begin, columns.place + model.begin};
  const Best<T> to{out.top + run.first, out.place + run.first};
  const int64_t count = run.last - run.first;
  if (run.step == 1) best_of_run<1>(from, model.size(), model.step, count, to);
  if (run.step == 2) best_of_run<2>(from, model.size(), model.step, count, to);
  if (run.step == 3) best_of_run<3>(from, model.size(), model.step, count, to);
}

template <typename T>
void max(const Windows& w, int64_t planes, const void* in, void* values, int64_t* places,
         void* scratch) {
  const Best<T> columns{static_cast<T*>(scratch),
                        reinterpret_cast<Place<T>*>(static_cast<T*>(scratch) + w.in[2])};
  Place<T>* const found = columns.place + w.in[2];
  const Run run = longest_run(w.ranges[2], w.counts[2]);
  T* to = static_cast<T*>(values);
  for (int64_t p = 0; p < planes; ++p) {
    const T* plane = static_cast<const T*>(in) + p * w.in[0] * w.in[1] * w.in[2];
    for (int64_t i = 0; i < w.counts[0] * w.counts[1]; ++i) {
      best_of_columns(w, w.ranges[0][i / w.counts[1]], w.ranges[1][i % w.counts[1]], plane,
                      columns);
      best_of_windows(w, run, columns, Best<T>{to, found});
      for (int64_t k = 0; k < w.counts[2]; ++k) places[k] = found[k];
      to += w.counts[2];
      places += w.counts[2];
    }
  }
}

}  // namespace

extern const pool::MaxLoop FLAMBEAU_LOOPS(pool_max)[2];
const pool::MaxLoop FLAMBEAU_LOOPS(pool_max)[2] = {&max<float>, &max<double>};

}  // namespace flambeau::loops
