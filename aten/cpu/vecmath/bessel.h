#pragma once
// Modified Bessel functions of the first kind, orders 0 and 1, without a branch, in double for both
// types: the series of aten/core/special/bessel.h, both of them, and a choice. 9 eps relative. For
// float, as many terms of each series are taken as reach 2^-36.
#include "aten/core/special/bessel_fits.h"
#include "aten/cpu/vecmath/exp_log.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// Sum of the first kTerms c[k] T_k(t) by Clenshaw's recurrence.
template <int kTerms, int N>
[[gnu::always_inline]] inline double chebyshev_part(const double (&c)[N], double t) {
  double next = 0, after = 0;
#pragma GCC unroll 40
  for (int k = kTerms - 1; k > 0; --k) {
    const double here = madd(t + t, next, c[k] - after);
    after = next;
    next = here;
  }
  return madd(t, next, c[0] - after);
}
template <int N>
[[gnu::always_inline]] inline double chebyshev_sum(const double (&c)[N], double t) {
  return chebyshev_part<N>(c, t);
}
// The number of leading terms that a result of type T needs: all for double.
template <typename T, int N>
consteval int terms_for(const double (&c)[N], double least) {
  if (!__is_same(T, float)) return N;
  double rest = 0;
  for (int k = N - 1; k > 0; --k) {
    rest += c[k] < 0 ? -c[k] : c[k];
    if (rest > least * 0x1p-36) return k + 1;
  }
  return 1;
}
// The same sum for a result of type T, of a series whose values are at least kLeast in size.
template <typename T, const auto& kSeries, double kLeast>
[[gnu::always_inline]] inline double series_sum(double t) {
  return chebyshev_part<terms_for<T>(kSeries, kLeast)>(kSeries, t);
}

// e^-|x| I0(x) and e^-|x| I1(x).
template <typename T>
[[gnu::always_inline]] inline double scaled_i0(double x) {
  const double size = abs(x);
  const double near = series_sum<T, special::kI0Small, 0.14>(madd(size, 0.25, -1.0));
  const double far = series_sum<T, special::kI0Large, 0.39>(16.0 / size - 1.0) / sqrt(size);
  const double value = size <= 8.0 ? near : far;
  return x == 0.0 ? 1.0 : value;  // not 1 minus a rounding error
}
template <typename T>
[[gnu::always_inline]] inline double scaled_i1(double x) {
  const double size = abs(x);
  const double near = series_sum<T, special::kI1Small, 0.016>(madd(size, 0.25, -1.0)) * size;
  const double far = series_sum<T, special::kI1Large, 0.38>(16.0 / size - 1.0) / sqrt(size);
  return copysign(size <= 8.0 ? near : far, x);
}

template <Floating T>
[[gnu::always_inline]] inline T scaled_modified_bessel_i0(T x) {
  return static_cast<T>(scaled_i0<T>(x));
}
template <Floating T>
[[gnu::always_inline]] inline T scaled_modified_bessel_i1(T x) {
  return static_cast<T>(scaled_i1<T>(x));
}
template <Floating T>
[[gnu::always_inline]] inline T modified_bessel_i0(T x) {
  const double size = abs(static_cast<double>(x));
  return static_cast<T>(size == __builtin_inf() ? size : exp(size) * scaled_i0<T>(x));
}
template <Floating T>
[[gnu::always_inline]] inline T modified_bessel_i1(T x) {
  const double wide = x, size = abs(wide);
  return static_cast<T>(size == __builtin_inf() ? wide : exp(size) * scaled_i1<T>(wide));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
