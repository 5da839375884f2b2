#pragma once
// What plans of whole rows share: the limit of their length, the twiddles between transforms down
// the lanes and across them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "aten/ops/fft/fft_plan.h"

namespace flambeau::fft {

// Whether rows of n elements divide into lanes whose transforms are of small factors, with
// sequence, work arrays and twiddles in the second-level cache.
template <typename T>
bool fits_lanes(int64_t n, int64_t fewest_vectors) {
  constexpr int64_t kLongestRowBytes = 256 * 1024;
  const int64_t lanes = loops<T>().lanes;
  return n % lanes == 0 && n >= fewest_vectors * lanes &&
         n <= kLongestRowBytes / int64_t{2 * sizeof(T)} && LanePlan<T>::of(n / lanes)->is_smooth();
}

template <typename T>
void put_root(int64_t k, int64_t order, T& real, T& imaginary) {
  double re, im;
  root_of_unity(k % order, order, &re, &im);
  real = static_cast<T>(re);
  imaginary = static_cast<T>(im);
}

// For each k < count the roots of order n with exponents `exponent(k, lane)`: the real parts of all
// lanes, then the imaginary ones.
template <typename T, typename Exponent>
std::vector<T> lane_twiddles(int64_t count, int64_t n, const Exponent& exponent) {
  const int64_t lanes = loops<T>().lanes;
  std::vector<T> twiddles(static_cast<size_t>(2 * lanes * count));
  T* to = twiddles.data();
  for (int64_t k = 0; k < count; ++k, to += 2 * lanes) {
    for (int64_t j = 0; j < lanes; ++j) put_root(exponent(k, j), n, to[j], to[lanes + j]);
  }
  return twiddles;
}

}  // namespace flambeau::fft
