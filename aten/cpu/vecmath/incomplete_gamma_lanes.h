#pragma once
// Regularised incomplete gamma functions of Lanes: the formulas of aten/core/special/gamma.h, in
// double for both types. Series and fraction run until no lane gains by another step; results of
// float stop at 2^-36. The fraction's convergents are kept as numerators and denominators, so that
// a step has no division; the series divides once for two terms.
// NaN, infinities and zeros: as in gamma.h. Error bound (tested): 1e-13 relative for a up to 1e6.
// Source: Numerical Recipes 6.2; DiDonato & Morris 1986.
#include "aten/core/special_functions.h"
#ifndef __CUDACC__  // device code calls the functions of numbers
#include "aten/cpu/vecmath/exp_log.h"
#include "aten/cpu/vecmath/gamma.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

template <Floating T>
inline T igamma(T a, same_t<T> x) {
  return static_cast<T>(special_functions::igamma(a, x));
}
template <Floating T>
inline T igammac(T a, same_t<T> x) {
  return static_cast<T>(special_functions::igammac(a, x));
}

#ifdef FLAMBEAU_HAS_LANES

inline constexpr int kMostGammaSteps = 100000;

// log Gamma(1 + a) for a >= 0: sum of zeta(k) (-a)^k / k near 0.
[[gnu::always_inline]] inline double log_gamma_of_next(double a) {
  constexpr double kTerms[] = {
      0.82246703342411321824,   -0.40068563438653142847,  0.27058080842778454788,
      -0.20738555102867398527,  0.16955717699740818995,   -0.14404989676884611812,
      0.12550966952474304242,   -0.11133426586956469049,  0.10009945751278180853,
      -0.090954017145829042233, 0.083353840546109004025,  -0.076932516411352191473,
      0.071432946295361336059,  -0.066668705882420468033, 0.062500955141213040742,
      -0.058823978658684582339, 0.055555767627403611102,  -0.052631679379616660734,
      0.05000004769810169364,   -0.047619070330142227991};
  double sum = kTerms[19];
#pragma GCC unroll 20
  for (int k = 18; k >= 0; --k) sum = madd(sum, a, kTerms[k]);
  const double near = a * madd(a, sum, -0.57721566490153286061);
  const double far = lgamma(1.0 + a);
  return a > 0.2 ? far : near;
}
// log(ratio) - u for u = ratio - 1. With s = u / (2 + u) it is -s u + 2 s^3 / 3 + 2 s^5 / 5 + ...
[[gnu::always_inline]] inline double log_less(double ratio, double u) {
  const double s = u / (2.0 + u), z = s * s;
  double sum = 1.0 / 25;
#pragma GCC unroll 12
  for (int k = 23; k >= 3; k -= 2) sum = madd(sum, z, 1.0 / k);
  const double near = madd(2.0 * s * z, sum, -s * u);
  const double far = log(ratio) - u;
  return abs(u) > 0.3 ? far : near;
}
// x^a e^-x / Gamma(a + 1): from a = 10 on by Stirling's series.
[[gnu::always_inline]] inline double gamma_factor(double a, double x) {
  const double bounded = a < 10.0 ? 10.0 : a, inverse = 1.0 / bounded, z = inverse * inverse;
  double series = madd(z, -1.0 / 1188, 1.0 / 1680);
  series = madd(-z, series, 1.0 / 1260);
  series = madd(-z, series, 1.0 / 360);
  series = madd(-z, series, 1.0 / 12);
  const double exponent = bounded * log_less(x * inverse, (x - bounded) * inverse);
  const double far = madd(-series, inverse, exponent);
  const double near = a * log(x) - x - log_gamma_of_next(a < 10.0 ? a : 1.0);
  const double scale = sqrt(0.15915494309189533577 * inverse);  // 1 / sqrt(2 pi a)
  const double power = exp(a < 10.0 ? near : far);
  return a < 10.0 ? power : power * scale;
}
// 1 - igamma for small a and x, where the difference would cancel.
[[gnu::always_inline]] inline double igammac_near_zero(double a, double x) {
  double term = 1.0, sum = 0.0;
#pragma GCC unroll 22
  for (int k = 1; k <= 22; ++k) {
    term *= x * (-1.0 / k);
    sum += term / (a + k);
  }
  const double power = a * log(x) - log_gamma_of_next(a);
  return -expm1(power) - exp(power) * a * sum;
}

// function(a[i], x[i]) of each lane, a function of numbers without branches.
template <typename Function>
[[gnu::always_inline]] inline DoubleLanes of_each(DoubleLanes a, DoubleLanes x,
                                                  const Function& function) {
  alignas(sizeof(DoubleLanes)) double as[kDoubleLanes], xs[kDoubleLanes], out[kDoubleLanes];
  __builtin_memcpy(as, &a, sizeof a);
  __builtin_memcpy(xs, &x, sizeof x);
#pragma omp simd
  for (int64_t i = 0; i < kDoubleLanes; ++i) out[i] = function(as[i], xs[i]);
  DoubleLanes result;
  __builtin_memcpy(&result, out, sizeof result);
  return result;
}

// The sum over k of x^k / ((a + 1) ... (a + k)) where `lanes` is set.
[[gnu::always_inline]] inline DoubleLanes power_series(DoubleLaneBits lanes, DoubleLanes a,
                                                       DoubleLanes x, double tolerance) {
  DoubleLanes term = lanes ? spread(1.0) : DoubleLanes{}, sum = spread(1.0);
  for (int k = 1; k < kMostGammaSteps && any_at_least(term, sum * tolerance); k += 2) {
    const DoubleLanes first = a + static_cast<double>(k), second = first + 1.0;
    const DoubleLanes ratio = x / (first * second);
    sum += term * ratio * (second + x);
    term *= ratio * x;
  }
  return sum;
}
// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)) where `lanes` is set; x > a + 1.
[[gnu::always_inline]] inline DoubleLanes gamma_fraction(DoubleLaneBits lanes, DoubleLanes a,
                                                         DoubleLanes x, double tolerance) {
  constexpr double kLarge = 0x1p100;
  DoubleLanes b = x + 1.0 - a, above_before = DoubleLanes{}, below_before = spread(1.0);
  DoubleLanes above = spread(1.0), below = b, value = above / below;
  DoubleLaneBits open = lanes;
  const double least = tolerance < 0x1p-51 ? 0x1p-51 : tolerance;  // rounding may go on below
  for (int k = 1; k < kMostGammaSteps && any_lane(open);) {
    for (int end = k + 4; k < end; ++k) {
      const DoubleLanes numerator = (a - static_cast<double>(k)) * static_cast<double>(k);
      b += 2.0;
      const DoubleLanes next_above = madd(b, above, numerator * above_before);
      const DoubleLanes next_below = madd(b, below, numerator * below_before);
      above_before = above, below_before = below;
      above = next_above, below = next_below;
    }
    const DoubleLanes inverse = 1.0 / below, next = above * inverse;
    const DoubleLanes factor = abs(below) > kLarge ? inverse : spread(1.0);
    above *= factor, below *= factor, above_before *= factor, below_before *= factor;
    open &= abs(next - value) > abs(next) * least;
    value = next;
  }
  return value;
}

// Both functions for ordinary arguments.
template <bool kUpper>
[[gnu::always_inline]] inline DoubleLanes ordinary_igamma(DoubleLanes a, DoubleLanes x,
                                                          double tolerance) {
  const DoubleLaneBits far = (x > a + 1.0) & (x > 1.0);
  const DoubleLaneBits tiny = kUpper ? (x <= 1.1) & (a < 1.5) & ~far : DoubleLaneBits{};
  const DoubleLanes factor = of_each(
      a, x, [](double p, double q) __attribute__((always_inline)) { return gamma_factor(p, q); });
  DoubleLanes lower = DoubleLanes{}, upper = DoubleLanes{};
  if (any_lane(~far & ~tiny)) lower = factor * power_series(~far & ~tiny, a, x, tolerance);
  // Where the factor vanishes the fraction may be out of range.
  const DoubleLaneBits reached = far & (factor > 0.0);
  if (any_lane(reached)) {
    const DoubleLanes fraction = gamma_fraction(reached, a, x, tolerance);
    upper = reached ? factor * a * fraction : upper;
  }
  if constexpr (kUpper) {
    DoubleLanes near = DoubleLanes{};
    if (any_lane(tiny)) {
      near = of_each(tiny ? a : spread(1.0), tiny ? x : spread(1.0),
                     [](double p, double q)
                         __attribute__((always_inline)) { return igammac_near_zero(p, q); });
    }
    return far ? upper : tiny ? near : 1.0 - lower;
  } else {
    return far ? 1.0 - upper : lower;
  }
}
template <bool kUpper>
[[gnu::always_inline]] inline DoubleLanes any_igamma(DoubleLanes a, DoubleLanes x,
                                                     double tolerance) {
  constexpr double kInfinity = __builtin_inf();
  const DoubleLanes nan = spread(__builtin_nan("")), one = spread(1.0), zero = DoubleLanes{};
  const DoubleLaneBits ordinary = (x > 0.0) & (a > 0.0) & (x < kInfinity) & (a < kInfinity);
  const DoubleLanes value =
      ordinary_igamma<kUpper>(ordinary ? a : one, ordinary ? x : one, tolerance);
  const DoubleLanes at_infinity = x == kInfinity ? (a == kInfinity ? nan : one) : zero;
  const DoubleLanes at_zero = x > 0.0 ? one : nan;
  const DoubleLanes inside = a == 0.0 ? at_zero : at_infinity;
  const DoubleLanes lower = (x >= 0.0) & (a >= 0.0) ? inside : nan;
  return ordinary ? value : kUpper ? 1.0 - lower : lower;
}

[[gnu::always_inline]] inline DoubleLanes igamma(DoubleLanes a, DoubleLanes x) {
  return any_igamma<false>(a, x, 1e-17);
}
[[gnu::always_inline]] inline DoubleLanes igammac(DoubleLanes a, DoubleLanes x) {
  return any_igamma<true>(a, x, 1e-17);
}
template <bool kUpper>
[[gnu::always_inline]] inline Lanes igamma_of_floats(Lanes a, Lanes x) {
  const DoubleHalves as = as_doubles(a), xs = as_doubles(x);
  constexpr double kTolerance = 0x1p-36;
  DoubleLanes halves[2];
#pragma GCC unroll 1  // one copy of long code
  for (int i = 0; i < 2; ++i)
    halves[i] = any_igamma<kUpper>(i ? as.high : as.low, i ? xs.high : xs.low, kTolerance);
  return as_floats(halves[0], halves[1]);
}
[[gnu::always_inline]] inline Lanes igamma(Lanes a, Lanes x) {
  return igamma_of_floats<false>(a, x);
}
[[gnu::always_inline]] inline Lanes igammac(Lanes a, Lanes x) {
  return igamma_of_floats<true>(a, x);
}

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
#endif
