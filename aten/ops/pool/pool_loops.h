#pragma once
// Pooling over windows of planes, one table per instruction set.
#include <type_traits>

#include "aten/core/loop_types.h"

namespace flambeau::pool {

// Whether a later element is the maximum instead: ties go to the first, of several NaNs the last
// one is taken. Without branches, which data would decide at random.
template <typename T>
[[gnu::always_inline]] inline bool takes_place(T x, T top) {
  if constexpr (std::is_integral_v<T>) {
    return x > top;
  } else {
    return (x > top) | (x != x);
  }
}

// Places are as wide as the element, so that places and elements fill equally many lanes.
template <typename T>
struct PlaceOf {
  using type = int64_t;
};
template <>
struct PlaceOf<float> {
  using type = int32_t;
};

// The input indices of one window along one dimension: begin, begin + step, ... < end; `padded`
// counts the places including padding.
struct Range {
  int64_t begin, end, step, padded;
  int64_t size() const { return end - begin; }
};

// What many elements are summed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

// How a window's sum is divided.
struct Divisor {
  bool include_padding = true;
  int64_t override = 0;  // 0: none
  int64_t of(const Range& a, const Range& b, const Range& c) const {
    if (override != 0) return override;
    return include_padding ? a.padded * b.padded * c.padded : a.size() * b.size() * c.size();
  }
};

// Windows over planes of `in` elements, by the ranges of the three dimensions.
struct Windows {
  int64_t in[3];
  int64_t counts[3];
  const Range* ranges[3];
};

// Means of `planes` planes, windows of step 1. `scratch`: 16 * in[2] bytes.
using MeanLoop = void (*)(const Windows& w, const Divisor& divisor, int64_t planes, const void* in,
                          void* out, void* scratch);

// Maxima of `planes` planes and their places. No window is empty, and places fit PlaceOf<T>.
// `scratch`: 16 * (in[2] + counts[2]) bytes.
using MaxLoop = void (*)(const Windows& w, int64_t planes, const void* in, void* values,
                         int64_t* places, void* scratch);

// Windows along rows of `in` elements: window k < out holds the elements k step - padding + j
// apart, j < size, of those inside the row.
struct RowWindows {
  int64_t in, out, size, step, padding, apart;
};
// Maxima of `rows` rows without their places.
using MaxRowLoop = void (*)(const RowWindows& w, int64_t rows, const void* in, void* out);

// Images whose pixels hold `channels` elements each. Rows of windows first <= r < last are counted
// through all images, counts[0] * counts[1] in each.
struct ImageLoops {
  // `scratch`: 16 * channels bytes.
  void (*mean)(const Windows& w, const Divisor& divisor, int64_t channels, int64_t first,
               int64_t last, const void* in, void* out, void* scratch);
  // `scratch`: 8 * channels bytes.
  void (*max)(const Windows& w, int64_t channels, int64_t first, int64_t last, const void* in,
              void* values, int64_t* places, void* scratch);
  // Adds each mean's gradient to the pixels of one image that it was taken of.
  void (*spread)(const Windows& w, const Divisor& divisor, int64_t channels, const void* grad,
                 void* grad_input, void* scratch);
};
enum LoopType { kLoopFloat, kLoopDouble, kLoopInt64, kLoopTypes };

}  // namespace flambeau::pool
