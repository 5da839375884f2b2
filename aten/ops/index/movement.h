#pragma once
// The loops of indexing: reading places into a gapless array, and writing or adding one to places.
// Reads split over positions. Writes never do: a position may repeat, and its writes stay in order,
// so that the last one wins and sums are the same at any number of threads.
#include <algorithm>
#include <cstring>

#include "aten/cpu/parallel.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/index/places.h"

namespace flambeau::indexing {

// In T, integers wrapping around; half types add in float. For bool: or.
template <typename T>
T sum_of(T a, T b) {
  if constexpr (is_bool<T>) {
    return a || b;
  } else {
    return wrapping_sum(a, b);
  }
}

template <typename T>
T product_of(T a, T b) {
  if constexpr (is_bool<T>) {
    return a && b;
  } else {
    return wrapping_product(a, b);
  }
}

// out[b][i][a] = base[b, position i, a]. T may be opaque.
template <typename T>
void read_places(const Places& places, const T* base, T* out) {
  const auto positions = places.offsets.numel();
  const int64_t* const offsets = places.offsets.data_as<int64_t>();
  const int64_t width = places.after.count(), run = places.after.run(), step = places.after.step();
  const std::vector<int64_t> starts = places.after.starts();
  const bool gapless = starts.size() == 1 && step == 1;
  const auto read = [&](const T* from, int64_t i, T* to) {
    const T* const place = from + offsets[i];
    if (gapless) {
      std::memcpy(to, place, static_cast<size_t>(width) * sizeof(T));
      return;
    }
    for (const int64_t start : starts) {
      for (int64_t j = 0; j < run; ++j) *to++ = place[start + j * step];
    }
  };
  parallel_for(0, places.before.count() * positions, width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t first = row % positions, last = std::min(positions, first + end - row);
      const T* const from = base + places.before.offset(row / positions);
      T* const to = out + row * width;
      if (width == 1) {
        for (int64_t i = first; i < last; ++i) to[i - first] = from[offsets[i]];
      } else {
        for (int64_t i = first; i < last; ++i) read(from, i, to + (i - first) * width);
      }
      row += last - first;
    }
  });
}

template <typename T, typename Write>
void write_run(T* to, int64_t step, const T* values, int64_t value_step, int64_t count,
               const Write& write) {
  if (value_step == 0) {
    const T value = *values;
    for (int64_t j = 0; j < count; ++j) write(to[j * step], value);
  } else if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) write(to[j], values[j]);
  } else {
    for (int64_t j = 0; j < count; ++j) write(to[j * step], values[j]);
  }
}

// write(base[b, position i, a], values[b][i][a]) in order of i; `value_step` is 1, or 0 for one
// value.
template <typename T, typename Write>
void write_places(const Places& places, T* base, const T* values, int64_t value_step,
                  const Write& write) {
  const auto positions = places.offsets.numel();
  const int64_t* const offsets = places.offsets.data_as<int64_t>();
  const int64_t width = places.after.count(), run = places.after.run(), step = places.after.step();
  const std::vector<int64_t> starts = places.after.starts();
  const auto repeats = static_cast<int64_t>(starts.size());
  // Columns [first, last) of repetition r, for every position.
  const auto write_columns = [&](int64_t b, int64_t r, int64_t first, int64_t last) {
    T* const at = base + places.before.offset(b) + starts[static_cast<size_t>(r)];
    const T* from = values + (b * positions * width + r * run) * value_step;
    for (int64_t i = 0; i < positions; ++i, from += width * value_step) {
      write_run(at + offsets[i] + first * step, step, from + first * value_step, value_step,
                last - first, write);
    }
  };
  const int64_t blocks = places.before.count() * repeats;
  if (blocks == 1) {
    parallel_for(0, run, positions,
                 [&](int64_t first, int64_t last) { write_columns(0, 0, first, last); });
    return;
  }
  parallel_for(0, blocks, positions * run, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) write_columns(k / repeats, k % repeats, 0, run);
  });
}

}  // namespace flambeau::indexing
