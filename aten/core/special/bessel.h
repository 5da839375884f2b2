#pragma once
// Bessel functions of orders 0 and 1, ordinary and modified, and the Airy function Ai, in double.
// The ordinary ones are the C library's, the others Chebyshev series; 8 eps relative, absolute near
// the zeros of Ai. Definitions: Abramowitz & Stegun 9.1, 9.6, 10.4.
#include "aten/core/special/airy_fits.h"
#include "aten/core/special/bessel_fits.h"
#include "aten/core/special/chebyshev_series.h"

namespace flambeau::special {

FLAMBEAU_SPECIAL double bessel_j0(double x) { return ::j0(x); }
FLAMBEAU_SPECIAL double bessel_j1(double x) { return ::j1(x); }
// Not real for negative numbers.
FLAMBEAU_SPECIAL double bessel_y0(double x) {
  if (!(x > 0)) return x == 0 ? -infinity() : not_a_number();
  return ::y0(x);
}
FLAMBEAU_SPECIAL double bessel_y1(double x) {
  if (!(x > 0)) return x == 0 ? -infinity() : not_a_number();
  return ::y1(x);
}

FLAMBEAU_SPECIAL double scaled_modified_bessel_i0(double x) {
  const double y = ::fabs(x);
  if (y <= 8) return chebyshev_sum(kI0Small, y / 4 - 1);
  return chebyshev_sum(kI0Large, 16 / y - 1) / ::sqrt(y);
}
FLAMBEAU_SPECIAL double scaled_modified_bessel_i1(double x) {
  const double y = ::fabs(x);
  if (y <= 8) return x * chebyshev_sum(kI1Small, y / 4 - 1);
  return ::copysign(chebyshev_sum(kI1Large, 16 / y - 1) / ::sqrt(y), x);
}
FLAMBEAU_SPECIAL double modified_bessel_i0(double x) {
  return is_infinite(x) ? infinity() : ::exp(::fabs(x)) * scaled_modified_bessel_i0(x);
}
FLAMBEAU_SPECIAL double modified_bessel_i1(double x) {
  return is_infinite(x) ? x : ::exp(::fabs(x)) * scaled_modified_bessel_i1(x);
}

FLAMBEAU_SPECIAL double scaled_modified_bessel_k0(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  if (x > 2) return chebyshev_sum(kK0Large, 4 / x - 1) / ::sqrt(x);
  return ::exp(x) * (chebyshev_sum(kK0Small, x * x / 2 - 1) - ::log(x / 2) * modified_bessel_i0(x));
}
FLAMBEAU_SPECIAL double scaled_modified_bessel_k1(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  if (x > 2) return chebyshev_sum(kK1Large, 4 / x - 1) / ::sqrt(x);
  return ::exp(x) *
         (chebyshev_sum(kK1Small, x * x / 2 - 1) / x + ::log(x / 2) * modified_bessel_i1(x));
}
FLAMBEAU_SPECIAL double modified_bessel_k0(double x) {
  return ::exp(-x) * scaled_modified_bessel_k0(x);
}
FLAMBEAU_SPECIAL double modified_bessel_k1(double x) {
  return ::exp(-x) * scaled_modified_bessel_k1(x);
}

// sin(x) / x.
FLAMBEAU_SPECIAL double spherical_bessel_j0(double x) {
  if (is_infinite(x)) return 0;
  return x == 0 ? 1 : ::sin(x) / x;
}

// NaN for infinities, as in PyTorch.
FLAMBEAU_SPECIAL double airy_ai(double x) {
  if (x != x || is_infinite(x)) return not_a_number();
  if (x >= -2 && x <= 2) return chebyshev_sum(kAiryMiddle, x / 2);
  if (x < 0 && x >= -7) return chebyshev_sum(kAiryLeft, (x + 4.5) / 2.5);
  const double y = ::fabs(x), root = ::sqrt(y), z = 2 * y * root / 3, fourth = ::sqrt(root);
  if (x > 0) {
    constexpr double kStart = 1.88561808316412673174;  // z(2)
    return chebyshev_sum(kAiryLarge, 2 * kStart / z - 1) * ::exp(-z) / (2 * kSqrtPi * fourth);
  }
  constexpr double kStartSquared = 152.444444444444444444;  // z(7)^2
  const double t = 2 * kStartSquared / (z * z) - 1, phase = z - kPi / 4;
  const double p = chebyshev_sum(kAiryP, t), q = chebyshev_sum(kAiryQ, t) / z;
  return (::cos(phase) * p + ::sin(phase) * q) / (kSqrtPi * fourth);
}

}  // namespace flambeau::special
