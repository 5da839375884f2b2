#pragma once
// The gamma family in double, for the vector math of every backend. Needs log, pow, tan, floor and
// lgamma alone, so that device code can use it too.
#include "c10/core/complex.h"

#ifndef __CUDACC__
extern "C" {
double log(double) noexcept(true);
double pow(double, double) noexcept(true);
double tan(double) noexcept(true);
double floor(double) noexcept(true);
double exp(double) noexcept(true);
double lgamma_r(double, int*) noexcept(true);
}
#endif

namespace flambeau::gamma_series {

inline constexpr double kPi = 3.14159265358979323846;

// log |gamma(x)|; on the host lgamma itself would write the global signgam.
FLAMBEAU_HOST_DEVICE inline double log_gamma(double x) {
#ifdef __CUDACC__
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}

// Derivative of lgamma: recurrence up to 10, then Stirling's series (Abramowitz & Stegun 6.3.18);
// reflection for negative numbers. Infinite at 0 with its sign, NaN at negative integers.
FLAMBEAU_HOST_DEVICE inline double digamma(double x) {
  if (x == 0) return -1.0 / x;
  double result = 0;
  if (x < 0) {
    if (x == ::floor(x)) return (x - x) / (x - x);
    result = -kPi / ::tan(kPi * (x - ::floor(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  // B_2k / 2k, highest order first.
  const double terms[] = {8.33333333333333333333e-2, -2.10927960927960927961e-2,
                          7.57575757575757575758e-3, -4.16666666666666666667e-3,
                          3.96825396825396825397e-3, -8.33333333333333333333e-3,
                          8.33333333333333333333e-2};
  double series = 0;
  for (const double term : terms) series = series * z + term;
  return result + ::log(x) - 0.5 / x - z * series;
}

// Hurwitz zeta: sum over k >= 0 of (q + k)^-s, by Euler-Maclaurin from q + k > 9 on.
FLAMBEAU_HOST_DEVICE inline double hurwitz_zeta(double s, double q) {
  if (q <= 0 && q == ::floor(q)) return __builtin_inf();
  double sum = 0;
  double a = q;
  for (; a <= 9 || a <= q + 9; a += 1) sum += ::pow(a, -s);
  const double last = ::pow(a, -s);
  sum += last * a / (s - 1) + 0.5 * last;
  // B_2k / (2k)! of the correction terms.
  const double coefficients[] = {
      8.333333333333333e-2,   -1.388888888888889e-3,  3.306878306878307e-5,
      -8.267195767195767e-7,  2.08767569878681e-8,    -5.284190138687493e-10,
      1.3382536530684679e-11, -3.389680296322583e-13, 8.586062056277845e-15};
  double factor = s;
  double power = last / a;
  for (int k = 0; k < 9; ++k) {
    sum += coefficients[k] * factor * power;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= a * a;
  }
  return sum;
}

// n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x).
FLAMBEAU_HOST_DEVICE inline double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  const double factorial = ::floor(::exp(log_gamma(n + 1)) + 0.5);
  const double value = factorial * hurwitz_zeta(n + 1, x);
  return n == 2 * ::floor(n / 2) ? -value : value;
}

}  // namespace flambeau::gamma_series
