#pragma once
// Bessel functions of orders 0 and 1, ordinary ones of both kinds and modified ones of the second
// kind, and sin(x) / x, without a branch: both formulas are evaluated, then one is chosen.
//   J below 8: x^n A(x^2) (x^2 - z1^2) (x^2 - z2^2) / (x^2 + 16)^2, z1 and z2 its zeros there;
//   Y below 8: 2/pi (log(x) J - n / x) + x^n S(x^2);
//   above 8: sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)), P and Q over 64 / x^2;
//   K below 2: the series that aten/core/special/bessel.h uses, with those of Taylor for I.
// Accumulates in double, for float with as many terms of each series as reach 2^-36.
// NaN, infinity: NaN gives NaN; J and Y vanish at infinity; Y and K are infinite at 0, NaN below.
// Error (tested): 8 eps, of the amplitude sqrt(2 / (pi x)) near the zeros of Y and those of J
// beyond 8; for float 1 ulp likewise. Source: Abramowitz & Stegun 9.1, 9.2, 9.6; Hart et al. 1968,
// "Computer Approximations", 6.8.
#include "aten/core/special/ordinary_bessel_fits.h"
#include "aten/cpu/vecmath/bessel.h"
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// (x - z) (x + z) for a zero z of more digits than double has.
template <const auto& kZero>
[[gnu::always_inline]] inline double zero_factor(double x) {
  return ((x - kZero[0]) - kZero[1]) * (x + kZero[0]);
}
[[gnu::always_inline]] inline double square_inverse(double x) {
  const double s = madd(x, x, 16.0);
  return 1.0 / (s * s);
}
template <typename T>
[[gnu::always_inline]] inline double bessel_j0_near(double x) {
  const double zeros = zero_factor<special::kJ0Zero1>(x) * zero_factor<special::kJ0Zero2>(x);
  const double t = madd(x * x, 0.03125, -1.0);
  return series_sum<T, special::kJ0Near, 0.5>(t) * zeros * square_inverse(x);
}
template <typename T>
[[gnu::always_inline]] inline double bessel_j1_near(double x) {
  const double zeros = zero_factor<special::kJ1Zero1>(x) * zero_factor<special::kJ1Zero2>(x);
  const double t = madd(x * x, 0.03125, -1.0);
  return series_sum<T, special::kJ1Near, 0.1>(t) * x * zeros * square_inverse(x);
}

// sin(x) + cos(x) and sin(x) - cos(x) for x >= 0. The one that cancels follows from the other and
// from their product, -cos(2 x); for float the difference is exact enough.
struct TurnedWaves {
  double sum;
  double difference;
};
template <typename T>
[[gnu::always_inline]] inline TurnedWaves turned_waves(double x) {
  // Of one number, sine and cosine would become one call, which has no form for vectors.
  const double s = sin(abs(x)), c = cos(x), sum = s + c, difference = s - c;
  if constexpr (__is_same(T, float)) {
    return {sum, difference};
  } else {
    const double product = -cos(x + x);
    const bool cancels = abs(sum) < abs(difference);
    const double other = product / (cancels ? difference : sum);
    return {cancels ? other : sum, cancels ? difference : other};
  }
}
// For x >= 8: the waves, P, and Q with its factor 8 / x, all times sqrt(1 / (pi x)).
struct FarParts {
  TurnedWaves waves;
  double p;
  double q;
};
template <typename T, const auto& kP, const auto& kQ>
[[gnu::always_inline]] inline FarParts far_parts(double x) {
  const double inverse = 8.0 / x, t = madd(inverse * inverse, 2.0, -1.0);
  const double amplitude = sqrt(0.31830988618379067154 / x);
  return {turned_waves<T>(x), series_sum<T, kP, 1.0>(t) * amplitude,
          series_sum<T, kQ, 1.0>(t) * inverse * amplitude};
}
template <typename T>
[[gnu::always_inline]] inline FarParts far_parts_0(double x) {
  return far_parts<T, special::kJ0P, special::kJ0Q>(x);
}
template <typename T>
[[gnu::always_inline]] inline FarParts far_parts_1(double x) {
  return far_parts<T, special::kJ1P, special::kJ1Q>(x);
}

// Where the waves of infinity are NaN, the functions vanish.
[[gnu::always_inline]] inline double choose_bessel(double size, double near, double far) {
  const double beyond = size == __builtin_inf() ? 0.0 : far;
  return size < 8.0 ? near : beyond;
}
template <typename T>
[[gnu::always_inline]] inline T bessel_j0_as(double x) {
  const double size = abs(x);
  const FarParts f = far_parts_0<T>(size);
  const double far = madd(f.p, f.waves.sum, -f.q * f.waves.difference);
  const double value = choose_bessel(size, bessel_j0_near<T>(size), far);
  return static_cast<T>(x == 0.0 ? 1.0 : value);  // not 1 and a rounding error
}
template <typename T>
[[gnu::always_inline]] inline T bessel_j1_as(double x) {
  const double size = abs(x);
  const FarParts f = far_parts_1<T>(size);
  const double far = madd(f.p, f.waves.difference, f.q * f.waves.sum);
  const double value = choose_bessel(size, bessel_j1_near<T>(size), far);
  return static_cast<T>(value * copysign(1.0, x));
}
inline constexpr double kTwoOverPi = 0.63661977236758134308;
template <typename T>
[[gnu::always_inline]] inline T bessel_y0_as(double x) {
  const double series = series_sum<T, special::kY0Near, 1e-3>(madd(x * x, 0.03125, -1.0));
  const double near = madd(kTwoOverPi * log(x), bessel_j0_near<T>(x), series);
  const FarParts f = far_parts_0<T>(x);
  const double far = madd(f.p, f.waves.difference, f.q * f.waves.sum);
  return static_cast<T>(choose_bessel(x, near, far));
}
template <typename T>
[[gnu::always_inline]] inline T bessel_y1_as(double x) {
  const double series = series_sum<T, special::kY1Near, 1e-3>(madd(x * x, 0.03125, -1.0));
  const double pole = madd(log(x), bessel_j1_near<T>(x), -1.0 / x);
  const FarParts f = far_parts_1<T>(x);
  const double far = madd(f.q, f.waves.difference, -f.p * f.waves.sum);
  const double near = madd(series, x, kTwoOverPi * (x == 0.0 ? -__builtin_inf() : pole));
  return static_cast<T>(choose_bessel(x, near, far));
}

// I0(x) and I1(x) / x for |x| <= 2: sum over k of q^k / (k! (k + order)!), q = x^2 / 4.
template <int kOrder>
[[gnu::always_inline]] inline double taylor_of_i(double q) {
  constexpr int kTerms = 12;
  double sum = 1.0;
#pragma GCC unroll 12
  for (int k = kTerms; k > 0; --k) sum = madd(sum, q * (1.0 / (k * (k + kOrder))), 1.0);
  return sum;
}
// log(x / 2), also where x / 2 would be rounded.
[[gnu::always_inline]] inline double log_of_half(double x) {
  const bool small = x < 1.0;
  return log(small ? x : 0.5 * x) - (small ? 0.69314718055994530942 : 0.0);
}
// K(x) for x <= 2 and e^x K(x) beyond.
struct KParts {
  double near;
  double far;
};
template <typename T>
[[gnu::always_inline]] inline KParts k0_parts(double x) {
  const double q = 0.25 * x * x;
  const double series = series_sum<T, special::kK0Small, 0.1>(madd(q, 2.0, -1.0));
  const double near = madd(-log_of_half(x), taylor_of_i<0>(q), series);
  return {near, series_sum<T, special::kK0Large, 1.0>(4.0 / x - 1.0) / sqrt(x)};
}
template <typename T>
[[gnu::always_inline]] inline KParts k1_parts(double x) {
  const double q = 0.25 * x * x;
  const double series = series_sum<T, special::kK1Small, 0.1>(madd(q, 2.0, -1.0)) / x;
  const double near = madd(log_of_half(x), 0.5 * x * taylor_of_i<1>(q), series);
  return {near, series_sum<T, special::kK1Large, 1.0>(4.0 / x - 1.0) / sqrt(x)};
}
// Infinity at 0, NaN below.
[[gnu::always_inline]] inline double within_domain(double x, double value) {
  const double inside = x > 0.0 ? value : __builtin_nan("");
  return x == 0.0 ? __builtin_inf() : inside;
}
[[gnu::always_inline]] inline double unscaled_k(double x, KParts k) {
  const double far = k.far * exp_nonpositive(x > 2.0 ? -x : 0.0);
  return within_domain(x, x <= 2.0 ? k.near : far);
}
[[gnu::always_inline]] inline double scaled_k(double x, KParts k) {
  const double near = k.near * exp_normal(x <= 2.0 ? x : 0.0);
  return within_domain(x, x <= 2.0 ? near : k.far);
}

template <Floating T>
[[gnu::always_inline]] inline T bessel_j0(T x) {
  return bessel_j0_as<T>(x);
}
template <Floating T>
[[gnu::always_inline]] inline T bessel_j1(T x) {
  return bessel_j1_as<T>(x);
}
template <Floating T>
[[gnu::always_inline]] inline T bessel_y0(T x) {
  return bessel_y0_as<T>(x);
}
template <Floating T>
[[gnu::always_inline]] inline T bessel_y1(T x) {
  return bessel_y1_as<T>(x);
}
template <Floating T>
[[gnu::always_inline]] inline T modified_bessel_k0(T x) {
  return static_cast<T>(unscaled_k(x, k0_parts<T>(x)));
}
template <Floating T>
[[gnu::always_inline]] inline T modified_bessel_k1(T x) {
  return static_cast<T>(unscaled_k(x, k1_parts<T>(x)));
}
template <Floating T>
[[gnu::always_inline]] inline T scaled_modified_bessel_k0(T x) {
  return static_cast<T>(scaled_k(x, k0_parts<T>(x)));
}
template <Floating T>
[[gnu::always_inline]] inline T scaled_modified_bessel_k1(T x) {
  return static_cast<T>(scaled_k(x, k1_parts<T>(x)));
}

// sin(x) / x, in double.
template <Floating T>
[[gnu::always_inline]] inline T spherical_bessel_j0(T x) {
  const double angle = x;
  const double value = abs(angle) == __builtin_inf() ? 0.0 : sin(angle) / angle;
  return static_cast<T>(angle == 0.0 ? 1.0 : value);
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
