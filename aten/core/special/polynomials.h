#pragma once
// Classical orthogonal polynomials of degree n (truncated to an integer) in double, by their
// three-term recurrences; degrees below 0 give 0. Chebyshev's on (-1, 1) by cosines for higher
// degrees, where the recurrence would lose digits and time. Definitions: Abramowitz & Stegun,
// chapter 22.
#include "aten/core/special/math.h"

namespace flambeau::special {

// A recurrence loses about one unit in the last place per step and takes nanoseconds for each:
// degrees above this are not computed.
inline constexpr double kHighestDegree = 1 << 24;

// p(k + 1) = (a(k) x + b(k)) p(k) - c(k) p(k - 1), from p(0) = 1 and p(1) = first.
template <typename Next>
FLAMBEAU_SPECIAL double by_recurrence(double x, double n, double first, const Next& next) {
  if (x != x || n != n) return not_a_number();
  if (n <= -1) return 0;
  if (n > kHighestDegree) return not_a_number();
  const auto degree = static_cast<int64_t>(n);
  if (degree == 0) return 1;
  double before = 1, here = first;
  for (int64_t k = 1; k < degree && here == here; ++k) {
    const double after = next(static_cast<double>(k), here, before);
    before = here;
    here = after;
  }
  return here;
}

FLAMBEAU_SPECIAL double chebyshev_by_recurrence(double x, double n, double first) {
  return by_recurrence(x, n, first,
                       [x](double, double here, double before) { return 2 * x * here - before; });
}

inline constexpr double kHighDegree = 6;

FLAMBEAU_SPECIAL bool takes_cosines(double x, double n) { return n > kHighDegree && ::fabs(x) < 1; }
FLAMBEAU_SPECIAL bool is_even(double n) { return ::fmod(::trunc(n), 2) == 0; }

FLAMBEAU_SPECIAL double chebyshev_polynomial_t(double x, double n) {
  if (takes_cosines(x, n)) return ::cos(::trunc(n) * ::acos(x));
  if (::fabs(x) == 1 && n > -1) return x > 0 || is_even(n) ? 1 : -1;
  return chebyshev_by_recurrence(x, n, x);
}
FLAMBEAU_SPECIAL double chebyshev_polynomial_u(double x, double n) {
  const double degree = ::trunc(n);
  if (takes_cosines(x, n)) return ::sin((degree + 1) * ::acos(x)) / ::sin(::acos(x));
  if (::fabs(x) == 1 && n > -1) return x > 0 || is_even(n) ? degree + 1 : -(degree + 1);
  return chebyshev_by_recurrence(x, n, 2 * x);
}
FLAMBEAU_SPECIAL double chebyshev_polynomial_v(double x, double n) {
  const double degree = ::trunc(n);
  if (takes_cosines(x, n)) return ::cos((degree + 0.5) * ::acos(x)) / ::cos(::acos(x) / 2);
  if (::fabs(x) == 1 && n > -1) return x > 0 ? 1 : is_even(n) ? 2 * degree + 1 : -(2 * degree + 1);
  return chebyshev_by_recurrence(x, n, 2 * x - 1);
}
FLAMBEAU_SPECIAL double chebyshev_polynomial_w(double x, double n) {
  const double degree = ::trunc(n);
  if (takes_cosines(x, n)) return ::sin((degree + 0.5) * ::acos(x)) / ::sin(::acos(x) / 2);
  if (::fabs(x) == 1 && n > -1) return x > 0 ? 2 * degree + 1 : is_even(n) ? 1 : -1;
  return chebyshev_by_recurrence(x, n, 2 * x + 1);
}

// The physicists' and the probabilists'.
FLAMBEAU_SPECIAL double hermite_polynomial_h(double x, double n) {
  return by_recurrence(x, n, 2 * x, [x](double k, double here, double before) {
    return 2 * x * here - 2 * k * before;
  });
}
FLAMBEAU_SPECIAL double hermite_polynomial_he(double x, double n) {
  return by_recurrence(x, n, x,
                       [x](double k, double here, double before) { return x * here - k * before; });
}
FLAMBEAU_SPECIAL double laguerre_polynomial_l(double x, double n) {
  return by_recurrence(x, n, 1 - x, [x](double k, double here, double before) {
    return ((2 * k + 1 - x) * here - k * before) / (k + 1);
  });
}
FLAMBEAU_SPECIAL double legendre_polynomial_p(double x, double n) {
  if (::fabs(x) == 1 && n > -1) return x > 0 || is_even(n) ? 1 : -1;
  return by_recurrence(x, n, x, [x](double k, double here, double before) {
    return ((2 * k + 1) * x * here - k * before) / (k + 1);
  });
}

}  // namespace flambeau::special
