#pragma once
// Incomplete gamma functions and zeta, in double.
//   igamma(a, x) = 1/Gamma(a) * integral of t^(a-1) e^-t from 0 to x,  igammac = 1 - igamma,
// by the power series below x = a + 1 and Legendre's continued fraction above (Numerical
// Recipes 6.2; DiDonato & Morris 1986). The factor in front is written so that nothing cancels near
// x = a. 1e-13 relative for a up to 1e6.
#include "aten/core/gamma_series.h"
#include "aten/core/special/math.h"

namespace flambeau::special {

// Hurwitz zeta: sum over k >= 0 of (q + k)^-s.
FLAMBEAU_SPECIAL double zeta(double s, double q) {
  if (s == 1) return infinity();
  if (!(s > 1) || q != q) return not_a_number();
  if (q <= 0) {
    if (q == ::floor(q)) return infinity();
    if (s != ::floor(s)) return not_a_number();
    if (q < -10) {  // the terms of either sign as two sums
      const double rest = q - ::floor(q), least = 1 - q;
      const double negative = zeta(s, 1 - rest) - zeta(s, least);
      return zeta(s, rest) + (s == 2 * ::floor(s / 2) ? negative : -negative);
    }
  }
  // The integral and half the first term: the sum's steps would not change q.
  if (q > 1e7) return (1 / (s - 1) + 0.5 / q) * ::pow(q, 1 - s);
  return gamma_series::hurwitz_zeta(s, q);
}

// n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x).
FLAMBEAU_SPECIAL double polygamma(double n, double x) {
  if (n == 0) return gamma_series::digamma(x);
  const double factorial = ::floor(::exp(gamma_series::log_gamma(n + 1)) + 0.5);
  const double value = factorial * zeta(n + 1, x);
  return n == 2 * ::floor(n / 2) ? -value : value;
}

// log Gamma(1 + a) for small |a|: -gamma a + sum of zeta(k) (-a)^k / k.
FLAMBEAU_SPECIAL double log_gamma_1p(double a) {
  if (::fabs(a) > 0.2) return gamma_series::log_gamma(1 + a);
  constexpr double kTerms[] = {
      0.82246703342411321824,   -0.40068563438653142847,  0.27058080842778454788,
      -0.20738555102867398527,  0.16955717699740818995,   -0.14404989676884611812,
      0.12550966952474304242,   -0.11133426586956469049,  0.10009945751278180853,
      -0.090954017145829042233, 0.083353840546109004025,  -0.076932516411352191473,
      0.071432946295361336059,  -0.066668705882420468033, 0.062500955141213040742,
      -0.058823978658684582339, 0.055555767627403611102,  -0.052631679379616660734,
      0.05000004769810169364,   -0.047619070330142227991};
  double sum = 0;
  for (int k = 19; k >= 0; --k) sum = sum * a + kTerms[k];
  return a * (a * sum - 0.57721566490153286061);
}

// log(1 + u) - u.
FLAMBEAU_SPECIAL double log1p_minus(double u) {
  if (::fabs(u) > 0.3) return ::log1p(u) - u;
  double term = -u * u, sum = 0;
  for (int k = 2; k < 60; ++k) {
    const double next = sum + term / k;
    if (next == sum) break;
    sum = next;
    term *= -u;
  }
  return sum;
}

// x^a e^-x / Gamma(a + 1).
FLAMBEAU_SPECIAL double gamma_factor(double a, double x) {
  if (a < 10) return ::exp(a * ::log(x) - x - log_gamma_1p(a));
  // Stirling: Gamma(a + 1) = sqrt(2 pi a) (a / e)^a e^(1/(12 a) - ...)
  const double z = 1 / (a * a);
  const double correction =
      (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
  return ::exp(a * log1p_minus((x - a) / a) - correction) / ::sqrt(2 * kPi * a);
}

FLAMBEAU_SPECIAL double igamma_series(double a, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 100000 && term > sum * 1e-17; ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * gamma_factor(a, x);
}

// Lentz's evaluation from the front.
FLAMBEAU_SPECIAL double igammac_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, value = d;
  for (int k = 1; k < 100000; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    d = 1 / (::fabs(d) < kTiny ? kTiny : d);
    c = b + numerator / c;
    c = ::fabs(c) < kTiny ? kTiny : c;
    value *= c * d;
    if (::fabs(c * d - 1) < 1e-16) break;
  }
  return value * a * gamma_factor(a, x);
}

// 1 - igamma for small x, where the difference would cancel.
FLAMBEAU_SPECIAL double igammac_series(double a, double x) {
  double term = 1, sum = 0;
  for (int k = 1; k < 1000; ++k) {
    term *= -x / k;
    sum += term / (a + k);
    if (::fabs(term / (a + k)) < ::fabs(sum) * 1e-17) break;
  }
  const double power = a * ::log(x) - log_gamma_1p(a);
  return -::expm1(power) - ::exp(power) * a * sum;
}

FLAMBEAU_SPECIAL bool igamma_at_ends(double a, double x, double* lower) {
  if (!(x >= 0) || !(a >= 0)) {
    *lower = not_a_number();
  } else if (a == 0) {
    *lower = x > 0 ? 1 : not_a_number();
  } else if (x == 0) {
    *lower = 0;
  } else if (is_infinite(a)) {
    *lower = is_infinite(x) ? not_a_number() : 0;
  } else if (is_infinite(x)) {
    *lower = 1;
  } else {
    return false;
  }
  return true;
}

FLAMBEAU_SPECIAL double igamma(double a, double x) {
  double value;
  if (igamma_at_ends(a, x, &value)) return value;
  return x <= a + 1 || x <= 1 ? igamma_series(a, x) : 1 - igammac_fraction(a, x);
}

FLAMBEAU_SPECIAL double igammac(double a, double x) {
  double value;
  if (igamma_at_ends(a, x, &value)) return 1 - value;
  if (x > a + 1 && x > 1) return igammac_fraction(a, x);
  return x <= 1.1 && a < 1.5 ? igammac_series(a, x) : 1 - igamma_series(a, x);
}

}  // namespace flambeau::special
