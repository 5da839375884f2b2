#pragma once
// Which elements of an image a place of a grid takes, with what weights, and how these change with
// the place. Free of library headers and always inlined, for loop files are compiled once per
// instruction set.
#include "aten/cpu/vecmath/basic.h"

namespace flambeau::vision {

enum class Filter : uint8_t { Linear, Nearest, Cubic };
enum class Border : uint8_t { Zeros, Edge, Reflection };

struct Sampling {
  Filter filter;
  Border border;
  bool align_corners;
};

// A coordinate and its derivative by the grid's number.
template <typename T>
struct Place {
  T at, slope;
};

template <typename T>
struct AxisTaps {
  int count;
  int64_t index[4];  // -1: outside, counts as zero
  T weight[4], slope[4];
};

template <typename T>
[[gnu::always_inline]] inline Place<T> clipped(Place<T> p, int64_t size) {
  const T last = static_cast<T>(size - 1);
  const bool inside = (p.at > 0) & (p.at < last);
  const T edge = p.at >= last ? last : T(0);  // NaN to the first
  return {inside ? p.at : edge, inside ? p.slope : T(0)};
}

// Mirrored until it lies in [low / 2, high / 2].
template <typename T>
[[gnu::always_inline]] inline Place<T> reflected(Place<T> p, int64_t low, int64_t high) {
  if (low == high) return {T(0), T(0)};
  const T least = static_cast<T>(low) / 2, span = static_cast<T>(high - low) / 2;
  T distance = p.at - least;
  const T sign = distance < 0 ? T(-1) : T(1);
  distance *= sign;
  const T extra = vec::fmod(distance, span);
  const bool even = vec::fmod(vec::floor(distance / span), T(2)) == 0;
  return {even ? extra + least : span - extra + least, p.slope * (even ? sign : -sign)};
}

template <typename T>
[[gnu::always_inline]] inline Place<T> bordered(Place<T> p, int64_t size, const Sampling& s) {
  if (s.border == Border::Zeros) return p;
  if (s.border == Border::Reflection) {
    p = s.align_corners ? reflected(p, 0, 2 * (size - 1)) : reflected(p, -1, 2 * size - 1);
  }
  return clipped(p, size);
}

// The element at a whole coordinate; numbers that no image reaches are outside.
template <typename T>
[[gnu::always_inline]] inline int64_t element(T whole, int64_t size) {
  const bool inside = (whole >= 0) & (whole < static_cast<T>(size));
  return static_cast<int64_t>(inside ? whole : T(-1));
}

// Keys's kernel with a = -0.75 at t - 1 .. t + 2, and its derivative by t.
template <typename T>
[[gnu::always_inline]] inline void cubic_weights(T t, T* weight, T* slope) {
  constexpr T a = T(-0.75);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const T d = t - static_cast<T>(i - 1), x = vec::abs(d), sign = d < 0 ? T(-1) : T(1);
    if (i == 1 || i == 2) {
      weight[i] = ((a + 2) * x - (a + 3)) * x * x + 1;
      slope[i] = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    } else {
      weight[i] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      slope[i] = sign * ((3 * a * x - 10 * a) * x + 8 * a);
    }
  }
}

// Where the grid's number g lies, in elements.
template <typename T>
[[gnu::always_inline]] inline Place<T> place_of(T g, int64_t size, const Sampling& s) {
  const auto corner = static_cast<int64_t>(s.align_corners);
  const T extent = static_cast<T>(size - corner), edge = static_cast<T>(1 - corner);
  return {((g + 1) * extent - edge) / 2, extent / 2};
}

// The taps along one axis of `size` elements for the grid's number g.
template <typename T>
[[gnu::always_inline]] inline AxisTaps<T> axis_taps(T g, int64_t size, const Sampling& s) {
  Place<T> p = place_of(g, size, s);
  AxisTaps<T> taps{};
  if (s.filter == Filter::Cubic) {
    const T base = vec::floor(p.at);
    taps.count = 4;
    cubic_weights(p.at - base, taps.weight, taps.slope);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Place<T> near{base + static_cast<T>(i) - 1, T(0)};
      taps.index[i] = element(vec::round(bordered(near, size, s).at), size);
      taps.slope[i] *= p.slope;
    }
    return taps;
  }
  p = bordered(p, size, s);
  if (s.filter == Filter::Nearest) {
    taps.count = 1;
    taps.index[0] = element(vec::round(p.at), size);
    taps.weight[0] = 1;
    return taps;
  }
  const T base = vec::floor(p.at), t = p.at - base;
  taps.count = 2;
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    taps.index[i] = element(base + static_cast<T>(i), size);
    taps.weight[i] = i == 0 ? 1 - t : t;
    taps.slope[i] = i == 0 ? -p.slope : p.slope;
  }
  return taps;
}

}  // namespace flambeau::vision
