#pragma once
// Which elements of an image a place of a grid takes, with what weights, and how these change with
// the place.
#include <algorithm>
#include <array>
#include <cmath>

#include "aten/core/tensor.h"

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
  std::array<int64_t, 4> index;  // -1: outside, counts as zero
  std::array<T, 4> weight, slope;
};

template <typename T>
Place<T> clipped(Place<T> p, int64_t size) {
  const T last = static_cast<T>(size - 1);
  if (!(p.at > 0)) return {T(0), T(0)};  // NaN as well
  return p.at >= last ? Place<T>{last, T(0)} : p;
}

// Mirrored until it lies in [low / 2, high / 2].
template <typename T>
Place<T> reflected(Place<T> p, int64_t low, int64_t high) {
  if (low == high) return {T(0), T(0)};
  const T least = static_cast<T>(low) / 2, span = static_cast<T>(high - low) / 2;
  T distance = p.at - least;
  const T sign = distance < 0 ? T(-1) : T(1);
  distance *= sign;
  const T extra = std::fmod(distance, span);
  const bool even = std::fmod(std::floor(distance / span), T(2)) == 0;
  return {even ? extra + least : span - extra + least, p.slope * (even ? sign : -sign)};
}

template <typename T>
Place<T> bordered(Place<T> p, int64_t size, const Sampling& s) {
  if (s.border == Border::Zeros) return p;
  if (s.border == Border::Reflection) {
    p = s.align_corners ? reflected(p, 0, 2 * (size - 1)) : reflected(p, -1, 2 * size - 1);
  }
  return clipped(p, size);
}

// The element at a whole coordinate; numbers that no image reaches are outside.
template <typename T>
int64_t element(T whole, int64_t size) {
  return whole >= 0 && whole < static_cast<T>(size) ? static_cast<int64_t>(whole) : -1;
}

// Keys's kernel with a = -0.75 at t - 1 .. t + 2, and its derivative by t.
template <typename T>
void cubic_weights(T t, std::array<T, 4>& weight, std::array<T, 4>& slope) {
  constexpr T a = T(-0.75);
  for (int i = 0; i < 4; ++i) {
    const T d = t - static_cast<T>(i - 1), x = std::abs(d), sign = d < 0 ? T(-1) : T(1);
    const auto at = static_cast<size_t>(i);
    if (i == 1 || i == 2) {
      weight[at] = ((a + 2) * x - (a + 3)) * x * x + 1;
      slope[at] = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    } else {
      weight[at] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      slope[at] = sign * ((3 * a * x - 10 * a) * x + 8 * a);
    }
  }
}

// Where the grid's number g lies, in elements.
template <typename T>
Place<T> place_of(T g, int64_t size, const Sampling& s) {
  const T half = (s.align_corners ? static_cast<T>(size - 1) : static_cast<T>(size)) / 2;
  return {s.align_corners ? (g + 1) * half : ((g + 1) * static_cast<T>(size) - 1) / 2, half};
}

// The taps along one axis of `size` elements for the grid's number g.
template <typename T>
AxisTaps<T> axis_taps(T g, int64_t size, const Sampling& s) {
  Place<T> p = place_of(g, size, s);
  AxisTaps<T> taps{};
  if (s.filter == Filter::Cubic) {
    const T base = std::floor(p.at);
    taps.count = 4;
    cubic_weights(p.at - base, taps.weight, taps.slope);
    for (size_t i = 0; i < 4; ++i) {
      const Place<T> near{base + static_cast<T>(i) - 1, T(0)};
      taps.index[i] = element(std::nearbyint(bordered(near, size, s).at), size);
      taps.slope[i] *= p.slope;
    }
    return taps;
  }
  p = bordered(p, size, s);
  if (s.filter == Filter::Nearest) {
    taps.count = 1;
    taps.index[0] = element(std::nearbyint(p.at), size);
    taps.weight[0] = 1;
    return taps;
  }
  const T base = std::floor(p.at), t = p.at - base;
  taps.count = 2;
  taps.index = {element(base, size), element(base + 1, size), -1, -1};
  taps.weight = {1 - t, t, 0, 0};
  taps.slope = {-p.slope, p.slope, 0, 0};
  return taps;
}

// Second derivatives of the weights by g: only the cubic ones are not straight lines.
template <typename T>
std::array<T, 4> axis_bends(T g, int64_t size, const Sampling& s) {
  std::array<T, 4> bends{};
  if (s.filter != Filter::Cubic) return bends;
  constexpr T a = T(-0.75);
  const Place<T> p = place_of(g, size, s);
  const T t = p.at - std::floor(p.at);
  for (int i = 0; i < 4; ++i) {
    const T x = std::abs(t - static_cast<T>(i - 1));
    const T bend = i == 1 || i == 2 ? 6 * (a + 2) * x - 2 * (a + 3) : 6 * a * x - 10 * a;
    bends[static_cast<size_t>(i)] = bend * p.slope * p.slope;
  }
  return bends;
}

}  // namespace flambeau::vision
