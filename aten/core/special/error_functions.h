#pragma once
// The scaled error function and the normal distribution, in double. erfcx: 8 eps; ndtr and
// log_ndtr: 8 eps of the exact function at the rounded argument; ndtri: 16 eps.
#include "aten/core/special/chebyshev_series.h"
#include "aten/core/special/table.h"

namespace flambeau::special {

// (1 + 2 x) erfcx(x) for x >= 0 over t = (x - 4) / (x + 4), fitted at 40 digits.
FLAMBEAU_SPECIAL_TABLE double kErfcx[] = {
    1.1774832005374486986,      -7.2607966203019004784e-3,  -8.1265123236184997858e-2,
    6.0092128041222249997e-2,   -2.8753935580276660271e-2,  1.0595663363472860014e-2,
    -3.1369272945542642383e-3,  7.4564943725361840431e-4,   -1.3696965030100540681e-4,
    1.7183861600300937113e-5,   -7.1583646234503468634e-7,  -2.4261399442449532015e-7,
    5.5765709395703564037e-8,   -2.1057869513809494827e-9,  -1.1717889351884956855e-9,
    1.9098355172456687949e-10,  1.4088717642088130787e-11,  -6.901108320480813015e-12,
    9.1679583641115668063e-14,  2.1454508286554902814e-13,  -1.4716575027006403607e-14,
    -6.6686751187655138767e-15, 7.5045985099351907984e-16,  2.2200930067269572409e-16,
    -3.1704898949784357561e-17, -8.1935703029306575219e-18, 1.2459819805934536383e-18};

// e^(x^2) erfc(x), without overflow for large x.
FLAMBEAU_SPECIAL double erfcx(double x) {
  if (x < 0) {
    // The rounding error of x^2 counts x^2 times in the exponential.
    const double square = x * x, rest = ::fma(x, x, -square);
    const double rise = ::exp(square);
    return 2 * (rise + (is_infinite(rise) ? 0 : rise * rest)) - erfcx(-x);
  }
  if (x > 1e8) return 1 / (kSqrtPi * x);
  return chebyshev_sum(kErfcx, (x - 4) / (x + 4)) / (1 + 2 * x);
}

// Distribution function of the standard normal.
FLAMBEAU_SPECIAL double ndtr(double x) { return 0.5 * ::erfc(-x * kSqrtHalf); }

FLAMBEAU_SPECIAL double log_ndtr(double x) {
  if (x < -1) return ::log(0.5 * erfcx(-x * kSqrtHalf)) - 0.5 * x * x;
  return ::log1p(-0.5 * ::erfc(x * kSqrtHalf));
}

// Derivative of log_ndtr: the density divided by the distribution function.
FLAMBEAU_SPECIAL double normal_hazard(double x) {
  return x > 30 ? 0 : 0.79788456080286535588 / erfcx(-x * kSqrtHalf);
}

// Inverse of ndtr: Hastings' start (Abramowitz & Stegun 26.2.23, error 4.5e-4), then Newton's steps
// on log_ndtr, which is nearly a parabola in the tail.
FLAMBEAU_SPECIAL double ndtri(double p) {
  if (!(p > 0 && p < 1)) {
    if (p == 0) return -infinity();
    return p == 1 ? infinity() : not_a_number();
  }
  const double tail = p < 0.5 ? p : 1 - p;
  if (tail == 0.5) return 0;
  const double target = ::log(tail), t = ::sqrt(-2 * target);
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
             t;
  for (int step = 0; step < 4; ++step) {
    // Near the middle log_ndtr(x) - target loses digits that ndtr(x) - tail keeps.
    const double excess =
        tail > 0.1 ? (-0.5 * ::erf(-x * kSqrtHalf) - (tail - 0.5)) / ndtr(x) : log_ndtr(x) - target;
    x -= excess / normal_hazard(x);
  }
  return p < 0.5 ? x : -x;
}

}  // namespace flambeau::special
