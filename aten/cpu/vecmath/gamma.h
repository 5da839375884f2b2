#pragma once
// The logarithm of the gamma function and its derivative without a branch, in double for both
// types.
//   x >= 6.5       Stirling's series, as a fit in 1 / x^2 (Abramowitz & Stegun 6.1.40);
//   0 < x < 6.5    x = n + t with n the nearest integer: log gamma(2 + t) = t P(t), and the
//                  recurrence's factors between 2 + t and x as one logarithm. The zeros at 1 and 2
//                  are met exactly: t is 0 there, and so is the logarithm;
//   x < 0          reflection: log gamma(x) = -log(|sin(pi x)| / pi) - log gamma(1 - x).
// Polynomials are Chebyshev fits made for this file, to 2^-55. Positive x: 6 ulp. Between the
// negative integers, where the function has zeros, an absolute error of a few 2^-52 times the
// parts remains. Infinite at 0, -1, -2, ... and at both infinities.
// The derivative takes the same three ways (A & S 6.3.18, 6.3.5, 6.3.7), with an absolute error of
// a few 2^-52 times the parts: infinite at 0 with the other sign, NaN at -1, -2, ... and -infinity.
// The second derivative: its asymptotic series from 8 on (A & S 6.4.12), the recurrence below, and
// reflection (6.4.7). 8 eps; infinite at 0, -1, -2, ..., NaN at -infinity.
#include "aten/cpu/vecmath/exp_log.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// log gamma(2 + t) / t on |t| <= 1/2.
[[gnu::always_inline]] inline double log_gamma_center(double t) {
  double p = madd(2.7475390051909663e-07, t, -5.811277768921246e-07);
  p = madd(p, t, 9.242852225162277e-07);
  p = madd(p, t, -1.9743106888421067e-06);
  p = madd(p, t, 4.3828545383846665e-06);
  p = madd(p, t, -9.45628851510172e-06);
  p = madd(p, t, 2.050601970174762e-05);
  p = madd(p, t, -4.4923727564247656e-05);
  p = madd(p, t, 9.945761692157133e-05);
  p = madd(p, t, -0.00022315497746292723);
  p = madd(p, t, 0.0005096695196526673);
  p = madd(p, t, -0.0011927539009983087);
  p = madd(p, t, 0.002890510330865901);
  p = madd(p, t, -0.007385551028935545);
  p = madd(p, t, 0.02058080842778338);
  p = madd(p, t, -0.06735230105319563);
  p = madd(p, t, 0.3224670334241132);
  return madd(p, t, 0.42278433509846713);
}
// x (log gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) in z = 1 / x^2, x >= 6.5.
[[gnu::always_inline]] inline double log_gamma_tail(double z) {
  double p = madd(-0.017776589307803025, z, 0.006012599565918923);
  p = madd(p, z, -0.00191004572233974);
  p = madd(p, z, 0.0008416706907988118);
  p = madd(p, z, -0.0005952376223188883);
  p = madd(p, z, 0.0007936507922688107);
  p = madd(p, z, -0.00277777777777623);
  return madd(p, z, 0.08333333333333333);
}
// sin(pi r) / (pi r) in z = r^2, |r| <= 1/2.
[[gnu::always_inline]] inline double sine_ratio(double z) {
  double p = madd(2.4502943624559793e-07, z, -6.972099660851199e-06);
  p = madd(p, z, 0.0001484278414189103);
  p = madd(p, z, -0.0023460808954639607);
  p = madd(p, z, 0.02614784780555096);
  p = madd(p, z, -0.19075182412149616);
  p = madd(p, z, 0.8117424252833393);
  p = madd(p, z, -1.6449340668482264);
  return madd(p, z, 1.0);
}
// The nearest integer to 0 <= x < 2^52, from where on there are no others.
[[gnu::always_inline]] inline double nearest(double x) { return (x + 0x1p52) - 0x1p52; }

// Of x >= 0.
[[gnu::always_inline]] inline double log_gamma_positive(double x) {
  const bool large = x >= 6.5;
  const double n = nearest(large ? 6.0 : x), t = x - n;
  double factors = n >= 2.5 ? x - 1.0 : 1.0;
  factors *= n >= 3.5 ? x - 2.0 : 1.0;
  factors *= n >= 4.5 ? x - 3.0 : 1.0;
  factors *= n >= 5.5 ? x - 4.0 : 1.0;
  factors *= n < 1.5 ? x : 1.0;
  factors *= n < 0.5 ? x + 1.0 : 1.0;
  const double l = log(large ? x : factors);
  const double center = madd(log_gamma_center(t), t, n < 1.5 ? -l : l);
  const double inverse = 1.0 / x;
  const double rest = madd(log_gamma_tail(inverse * inverse), inverse, 0.41893853320467274178);
  const double tail = madd(x - 0.5, l - 1.0, rest);
  return large ? tail : center;
}

[[gnu::always_inline]] inline double lgamma(double x) {
  const double size = abs(x);
  const bool negative = x < 0.0;
  const double positive = log_gamma_positive(negative ? 1.0 + size : size);
  const double whole = size < 0x1p52 ? nearest(size) : size;
  const double r = abs(size - whole);
  const double reflected = -log(r * sine_ratio(r * r)) - positive;
  const double value = negative ? reflected : positive;
  return size == __builtin_inf() ? size : value;
}
[[gnu::always_inline]] inline float lgamma(float x) {
  return static_cast<float>(lgamma(static_cast<double>(x)));
}

// digamma(2 + t) on |t| <= 1/2.
[[gnu::always_inline]] inline double digamma_center(double t) {
  double p = madd(-2.5861773625857027e-06, t, 5.17334585434095e-06);
  p = madd(p, t, -7.278587670411483e-06);
  p = madd(p, t, 1.4564976260589657e-05);
  p = madd(p, t, -3.068902288655258e-05);
  p = madd(p, t, 6.144972571559871e-05);
  p = madd(p, t, -0.0001226967064798969);
  p = madd(p, t, 0.00024605326824719294);
  p = madd(p, t, -0.0004941902550788927);
  p = madd(p, t, 0.0009945784300194591);
  p = madd(p, t, -0.002008392730204003);
  p = madd(p, t, 0.00407735600617157);
  p = madd(p, t, -0.008349277384931816);
  p = madd(p, t, 0.017343061990467628);
  p = madd(p, t, -0.03692775514332708);
  p = madd(p, t, 0.08232323371105249);
  p = madd(p, t, -0.20205690315959446);
  p = madd(p, t, 0.6449340668482267);
  return madd(p, t, 0.42278433509846713);
}
// (log x - 1 / (2 x) - digamma(x)) / z in z = 1 / x^2, x >= 6.5.
[[gnu::always_inline]] inline double digamma_tail(double z) {
  double p = madd(0.056117935628883, z, -0.020294145808169236);
  p = madd(p, z, 0.007563487416484688);
  p = madd(p, z, -0.004166567710032352);
  p = madd(p, z, 0.003968253583742833);
  p = madd(p, z, -0.00833333333276881);
  return madd(p, z, 0.0833333333333332);
}
// pi r cot(pi r) in z = r^2, |r| <= 1/2.
[[gnu::always_inline]] inline double cotangent_ratio(double z) {
  double p = madd(-16.010441564381928, z, 14.009136332706397);
  p = madd(p, z, -11.319882625220572);
  p = madd(p, z, 1.3837144431658985);
  p = madd(p, z, -2.8304611339513164);
  p = madd(p, z, -1.8569926328744886);
  p = madd(p, z, -2.01757120800584);
  p = madd(p, z, -1.9985909241396362);
  p = madd(p, z, -2.0005860738980754);
  p = madd(p, z, -2.001985221658275);
  p = madd(p, z, -2.0081548192608167);
  p = madd(p, z, -2.034686122223896);
  p = madd(p, z, -2.1646464674371577);
  p = madd(p, z, -3.289868133696403);
  return madd(p, z, 1.0);
}

// Of x >= 0. The recurrence's terms 1 / (x - 1) + 1 / (x - 2) ... as one fraction.
[[gnu::always_inline]] inline double digamma_positive(double x) {
  const bool large = x >= 6.5;
  const double n = nearest(large ? 6.0 : x), t = x - n;
  double above = 0.0, below = 1.0;
  const auto add = [&](bool is_term, double factor) {
    above = is_term ? madd(above, factor, below) : above;
    below = is_term ? below * factor : below;
  };
  add(n >= 2.5, x - 1.0);
  add(n >= 3.5, x - 2.0);
  add(n >= 4.5, x - 3.0);
  add(n >= 5.5, x - 4.0);
  add(n < 1.5, x);
  add(n < 0.5, x + 1.0);
  const double quotient = above / below;
  const double center = digamma_center(t) + (n < 1.5 ? -quotient : quotient);
  const double inverse = 1.0 / x, z = inverse * inverse;
  const double tail = log(x) - madd(digamma_tail(z), z, 0.5 * inverse);
  return large ? tail : center;
}

[[gnu::always_inline]] inline double digamma(double x) {
  const double size = abs(x);
  const bool negative = x < 0.0;
  const double positive = digamma_positive(negative ? 1.0 + size : size);
  const double whole = size < 0x1p52 ? nearest(size) : size;
  const double r = size - whole;
  const double reflected = positive + cotangent_ratio(r * r) / r;
  const double pole = x == 0.0 ? -copysign(static_cast<double>(__builtin_inf()), x)
                               : static_cast<double>(__builtin_nan(""));
  const double value = negative ? reflected : positive;
  return (x <= 0.0) & !(r != 0.0) ? pole : value;
}
[[gnu::always_inline]] inline float digamma(float x) {
  return static_cast<float>(digamma(static_cast<double>(x)));
}

// y^3 (trigamma(y) - 1 / y - 1 / (2 y^2)) in z = 1 / y^2, y >= 8: Bernoulli numbers up to the 20th.
// The later terms are below 2^-56 of the sum.
[[gnu::always_inline]] inline double trigamma_tail(double z) {
  double p = madd(-529.12424242424242, z, 54.971177944862155);
  p = madd(p, z, -7.0921568627450980);
  p = madd(p, z, 1.1666666666666667);
  p = madd(p, z, -0.25311355311355311);
  p = madd(p, z, 0.075757575757575758);
  p = madd(p, z, -0.033333333333333333);
  p = madd(p, z, 0.023809523809523810);
  p = madd(p, z, -0.033333333333333333);
  return madd(p, z, 0.16666666666666667);
}
// Of x >= 0. The terms 1 / (x + 1)^2 to 1 / (x + 7)^2 are one fraction.
[[gnu::always_inline]] inline double trigamma_positive(double x) {
  const bool large = x >= 8.0;
  const double near = large ? 1.0 : x;  // nothing overflows where the terms are not taken
  double above = 0.0, below = 1.0;
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) {
    const double square = (near + k) * (near + k);
    above = madd(above, square, below);
    below *= square;
  }
  const double first = 1.0 / near;
  const double terms = madd(first, first, above / below);
  const double inverse = 1.0 / (large ? x : x + 8.0), z = inverse * inverse;
  const double tail = madd(0.5, z, madd(trigamma_tail(z) * z, inverse, inverse));
  return large ? tail : terms + tail;
}

[[gnu::always_inline]] inline double trigamma(double x) {
  const double size = abs(x);
  const bool negative = x < 0.0;
  const double positive = trigamma_positive(negative ? 1.0 + size : size);
  const double whole = size < 0x1p52 ? nearest(size) : size;
  const double r = size - whole;  // NaN for infinities
  const double sine = r * sine_ratio(r * r);
  const double reflected = 1.0 / (sine * sine) - positive;
  return negative ? reflected : positive;
}
[[gnu::always_inline]] inline float trigamma(float x) {
  return static_cast<float>(trigamma(static_cast<double>(x)));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
