#pragma once
// Classical orthogonal polynomials of Lanes: the formulas of aten/core/special/polynomials.h, in
// double for both types. All lanes take as many steps of the recurrence as the highest degree among
// them needs, and each keeps the value of its own degree.
// NaN and infinities: NaN gives NaN; degrees below 0 give 0, those above kHighestDegree NaN.
// Error bound (tested): that of the functions of numbers.
#include "aten/core/special/polynomials.h"
#include "aten/core/special_functions.h"
#include "aten/cpu/vecmath/lanes.h"
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

template <Floating T>
inline T chebyshev_polynomial_t(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_t(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_u(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_u(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_v(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_v(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_w(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_w(x, n));
}
template <Floating T>
inline T hermite_polynomial_h(T x, same_t<T> n) {
  return static_cast<T>(special_functions::hermite_polynomial_h(x, n));
}
template <Floating T>
inline T hermite_polynomial_he(T x, same_t<T> n) {
  return static_cast<T>(special_functions::hermite_polynomial_he(x, n));
}
template <Floating T>
inline T laguerre_polynomial_l(T x, same_t<T> n) {
  return static_cast<T>(special_functions::laguerre_polynomial_l(x, n));
}
template <Floating T>
inline T legendre_polynomial_p(T x, same_t<T> n) {
  return static_cast<T>(special_functions::legendre_polynomial_p(x, n));
}

#ifdef FLAMBEAU_HAS_LANES

template <typename Function>
[[gnu::always_inline]] inline Lanes in_doubles(Lanes x, Lanes n, const Function& function) {
  const DoubleHalves xs = as_doubles(x), degrees = as_doubles(n);
  return as_floats(function(xs.low, degrees.low), function(xs.high, degrees.high));
}

// p(k + 1) = next(k, p(k), p(k - 1)) from p(0) = 1 and p(1) = first.
template <typename Next>
[[gnu::always_inline]] inline DoubleLanes by_recurrence(DoubleLanes x, DoubleLanes n,
                                                        DoubleLanes first, const Next& next) {
  const DoubleLanes one = spread(1.0), nan = spread(__builtin_nan(""));
  const DoubleLanes degree = n > special::kHighestDegree ? DoubleLanes{} : trunc(n);
  DoubleLanes before = one, here = degree >= 1.0 ? first : one;
  // A lane that has become NaN stays so.
  for (double k = 1; any_at_least(here == here ? degree : DoubleLanes{}, spread(k + 1)); ++k) {
    const DoubleLanes after = next(k, here, before);
    before = degree > k ? here : before;
    here = degree > k ? after : here;
  }
  const DoubleLanes value = n <= -1.0 ? DoubleLanes{} : n <= special::kHighestDegree ? here : nan;
  return x == x ? value : nan;
}
[[gnu::always_inline]] inline DoubleLanes chebyshev_by_recurrence(DoubleLanes x, DoubleLanes n,
                                                                  DoubleLanes first) {
  const DoubleLanes twice = x + x;
  return by_recurrence(x, n, first,
                       [&](double, DoubleLanes here, DoubleLanes before)
                           __attribute__((always_inline)) { return madd(twice, here, -before); });
}

[[gnu::always_inline]] inline DoubleLanes hermite_polynomial_h(DoubleLanes x, DoubleLanes n) {
  const DoubleLanes twice = x + x;
  return by_recurrence(
      x, n, twice,
      [&](double k, DoubleLanes here, DoubleLanes before)
          __attribute__((always_inline)) { return twice * here - 2.0 * k * before; });
}
[[gnu::always_inline]] inline DoubleLanes hermite_polynomial_he(DoubleLanes x, DoubleLanes n) {
  return by_recurrence(x, n, x,
                       [&](double k, DoubleLanes here, DoubleLanes before)
                           __attribute__((always_inline)) { return x * here - k * before; });
}
[[gnu::always_inline]] inline DoubleLanes laguerre_polynomial_l(DoubleLanes x, DoubleLanes n) {
  return by_recurrence(x, n, 1.0 - x,
                       [&](double k, DoubleLanes here, DoubleLanes before)
                           __attribute__((always_inline)) {
                             return ((2.0 * k + 1.0 - x) * here - k * before) / (k + 1.0);
                           });
}
// 1 or -1 at the ends of [-1, 1], as its number of factors is even or odd.
[[gnu::always_inline]] inline DoubleLanes sign_of_power(DoubleLanes x, DoubleLanes n) {
  const DoubleLanes half = 0.5 * trunc(n);
  const DoubleLaneBits even = (half == trunc(half)) & (half < __builtin_inf());
  return (x > 0.0) | even ? spread(1.0) : spread(-1.0);
}
[[gnu::always_inline]] inline DoubleLanes legendre_polynomial_p(DoubleLanes x, DoubleLanes n) {
  const DoubleLaneBits end = (abs(x) == 1.0) & (n > -1.0);
  const DoubleLanes value = by_recurrence(
      x, end ? DoubleLanes{} : n, x,
      [&](double k, DoubleLanes here, DoubleLanes before) __attribute__((always_inline)) {
        return ((2.0 * k + 1.0) * x * here - k * before) / (k + 1.0);
      });
  return end ? sign_of_power(x, n) : value;
}

// Whether a number takes cosines, as in polynomials.h, and is computed one by one elsewhere: lanes
// at the ends of [-1, 1] too.
[[gnu::always_inline]] inline DoubleLaneBits leaves_recurrence(DoubleLanes x, DoubleLanes n) {
  return ((n > special::kHighDegree) & (abs(x) < 1.0)) | ((abs(x) == 1.0) & (n > -1.0));
}
// Chebyshev's: numerator(degree, angle) / denominator(angle) for x = cos(angle).
template <typename Waves, typename AtEnds>
[[gnu::always_inline]] inline DoubleLanes chebyshev_polynomial(DoubleLanes x, DoubleLanes n,
                                                               DoubleLanes first,
                                                               const Waves& waves,
                                                               const AtEnds& at_ends) {
  const DoubleLaneBits leaves = leaves_recurrence(x, n);
  const DoubleLanes value = chebyshev_by_recurrence(x, leaves ? DoubleLanes{} : n, first);
  if (!any_at_least(leaves ? spread(1.0) : DoubleLanes{}, spread(1.0))) return value;
  const DoubleLanes degree = trunc(n);
  DoubleLanes result;
  alignas(sizeof(DoubleLanes)) double xs[kDoubleLanes], degrees[kDoubleLanes], out[kDoubleLanes];
  __builtin_memcpy(xs, &x, sizeof x);
  __builtin_memcpy(degrees, &degree, sizeof degree);
#pragma omp simd
  for (int64_t i = 0; i < kDoubleLanes; ++i) out[i] = waves(degrees[i], acos(xs[i]));
  __builtin_memcpy(&result, out, sizeof result);
  const DoubleLanes outer = abs(x) == 1.0 ? at_ends(degree) : result;
  return leaves ? outer : value;
}
[[gnu::always_inline]] inline DoubleLanes chebyshev_polynomial_t(DoubleLanes x, DoubleLanes n) {
  return chebyshev_polynomial(
      x, n, x, [](double k, double angle) __attribute__((always_inline)) { return cos(k * angle); },
      [&](DoubleLanes) { return sign_of_power(x, n); });
}
[[gnu::always_inline]] inline DoubleLanes chebyshev_polynomial_u(DoubleLanes x, DoubleLanes n) {
  return chebyshev_polynomial(
      x, n, x + x,
      [](double k, double angle)
          __attribute__((always_inline)) { return sin((k + 1.0) * angle) / sin(angle); },
      [&](DoubleLanes degree) { return sign_of_power(x, n) * (degree + 1.0); });
}
[[gnu::always_inline]] inline DoubleLanes chebyshev_polynomial_v(DoubleLanes x, DoubleLanes n) {
  return chebyshev_polynomial(
      x, n, x + x - 1.0,
      [](double k, double angle)
          __attribute__((always_inline)) { return cos((k + 0.5) * angle) / cos(0.5 * angle); },
      [&](DoubleLanes degree) {
        return x > 0.0 ? spread(1.0) : sign_of_power(x, n) * (2.0 * degree + 1.0);
      });
}
[[gnu::always_inline]] inline DoubleLanes chebyshev_polynomial_w(DoubleLanes x, DoubleLanes n) {
  return chebyshev_polynomial(
      x, n, x + x + 1.0,
      [](double k, double angle)
          __attribute__((always_inline)) { return sin((k + 0.5) * angle) / sin(0.5 * angle); },
      [&](DoubleLanes degree) { return x > 0.0 ? 2.0 * degree + 1.0 : sign_of_power(x, n); });
}

[[gnu::always_inline]] inline Lanes chebyshev_polynomial_t(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return chebyshev_polynomial_t(a...); });
}
[[gnu::always_inline]] inline Lanes chebyshev_polynomial_u(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return chebyshev_polynomial_u(a...); });
}
[[gnu::always_inline]] inline Lanes chebyshev_polynomial_v(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return chebyshev_polynomial_v(a...); });
}
[[gnu::always_inline]] inline Lanes chebyshev_polynomial_w(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return chebyshev_polynomial_w(a...); });
}
[[gnu::always_inline]] inline Lanes hermite_polynomial_h(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return hermite_polynomial_h(a...); });
}
[[gnu::always_inline]] inline Lanes hermite_polynomial_he(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return hermite_polynomial_he(a...); });
}
[[gnu::always_inline]] inline Lanes laguerre_polynomial_l(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return laguerre_polynomial_l(a...); });
}
[[gnu::always_inline]] inline Lanes legendre_polynomial_p(Lanes x, Lanes n) {
  return in_doubles(x, n, [](auto... a) { return legendre_polynomial_p(a...); });
}

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
