#pragma once
// Modified Bessel functions of the first kind, orders 0 and 1, without a branch, in double for both
// types: the series of aten/core/special/bessel.h, both of them, and a choice. 8 eps relative.
#include "aten/core/special/bessel_fits.h"
#include "aten/cpu/vecmath/exp_log.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// Sum of c[k] T_k(t) by Clenshaw's recurrence.
template <int N>
[[gnu::always_inline]] inline double chebyshev_sum(const double (&c)[N], double t) {
  double next = 0, after = 0;
#pragma GCC unroll 40
  for (int k = N - 1; k > 0; --k) {
    const double here = madd(t + t, next, c[k] - after);
    after = next;
    next = here;
  }
  return madd(t, next, c[0] - after);
}
template <int N, int M>
[[gnu::always_inline]] inline double scaled_bessel(const double (&small)[N],
                                                   const double (&large)[M], double size,
                                                   double factor) {
  const double near = chebyshev_sum(small, madd(size, 0.25, -1.0)) * factor;
  const double far = chebyshev_sum(large, 16.0 / size - 1.0) / sqrt(size);
  return size <= 8.0 ? near : far;
}

[[gnu::always_inline]] inline double scaled_modified_bessel_i0(double x) {
  const double value = scaled_bessel(special::kI0Small, special::kI0Large, abs(x), 1.0);
  return x == 0.0 ? 1.0 : value;  // not 1 minus a rounding error
}
[[gnu::always_inline]] inline double scaled_modified_bessel_i1(double x) {
  const double size = abs(x);
  return copysign(scaled_bessel(special::kI1Small, special::kI1Large, size, size), x);
}
[[gnu::always_inline]] inline double modified_bessel_i0(double x) {
  const double size = abs(x);
  return size == __builtin_inf() ? size : exp(size) * scaled_modified_bessel_i0(x);
}
[[gnu::always_inline]] inline double modified_bessel_i1(double x) {
  const double size = abs(x);
  return size == __builtin_inf() ? x : exp(size) * scaled_modified_bessel_i1(x);
}

[[gnu::always_inline]] inline float scaled_modified_bessel_i0(float x) {
  return static_cast<float>(scaled_modified_bessel_i0(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float scaled_modified_bessel_i1(float x) {
  return static_cast<float>(scaled_modified_bessel_i1(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float modified_bessel_i0(float x) {
  return static_cast<float>(modified_bessel_i0(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float modified_bessel_i1(float x) {
  return static_cast<float>(modified_bessel_i1(static_cast<double>(x)));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
