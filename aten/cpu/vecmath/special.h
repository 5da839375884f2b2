#pragma once
// Error functions and the gamma family.
#include "aten/core/gamma_series.h"
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// Below 1: x P(x^2). Above: 1 - exp(Q(|x|)) with Q a fit of log(erfc), which is 1 in float from 3.92
// on. 2 ulp.
[[gnu::always_inline]] inline float erf(float x) {
  const float z = x * x;
  float p = madd(-9.667044571e-6f, z, 1.126595903e-4f);
  p = madd(p, z, -8.484080406e-4f);
  p = madd(p, z, 5.221031808e-3f);
  p = madd(p, z, -2.686543073e-2f);
  p = madd(p, z, 0.112837825f);
  p = madd(p, z, -0.3761263847f);
  p = madd(p, z, 1.128379167f);
  const float magnitude = abs(x);
  const float t = magnitude > 3.95f ? 3.95f : magnitude;
  float q = madd(1.660158627e-6f, t, -4.649461013e-5f);
  q = madd(q, t, 6.00331329e-4f);
  q = madd(q, t, -4.775391091e-3f);
  q = madd(q, t, 2.64639772e-2f);
  q = madd(q, t, -0.1101519829f);
  q = madd(q, t, -0.6317532615f);
  q = madd(q, t, -1.130274025f);
  q = madd(q, t, 3.296774404e-4f);
  return magnitude < 1.0f ? x * p : copysign(1.0f - exp(q), x);
}
[[gnu::always_inline]] inline double erf(double x) { return ::erf(x); }
[[gnu::always_inline]] inline float erfc(float x) { return ::erfcf(x); }
[[gnu::always_inline]] inline double erfc(double x) { return ::erfc(x); }

// Inverse of erf: Giles' approximation (GPU Computing Gems 2011) in -log(1 - x^2), then Halley steps on
// erf or erfc, whichever is small, in double. 1 ulp in float, 4 in double.
[[gnu::always_inline]] inline double erfinv_start(double x) {
  const double w = -log((1.0 - x) * (1.0 + x));
  const double c = w - 2.5;
  double p = madd(2.81022636e-08, c, 3.43273939e-07);
  p = madd(p, c, -3.5233877e-06);
  p = madd(p, c, -4.39150654e-06);
  p = madd(p, c, 0.00021858087);
  p = madd(p, c, -0.00125372503);
  p = madd(p, c, -0.00417768164);
  p = madd(p, c, 0.246640727);
  p = madd(p, c, 1.50140941);
  const double t = sqrt(w) - 3.0;
  double q = madd(-0.000200214257, t, 0.000100950558);
  q = madd(q, t, 0.00134934322);
  q = madd(q, t, -0.00367342844);
  q = madd(q, t, 0.00573950773);
  q = madd(q, t, -0.0076224613);
  q = madd(q, t, 0.00943887047);
  q = madd(q, t, 1.00167406);
  q = madd(q, t, 2.83297682);
  return (w < 5.0 ? p : q) * x;
}
[[gnu::always_inline]] inline double erfinv_step(double y, double x) {
  const double magnitude = abs(y);
  const double target = abs(x);
  const double central = ::erf(magnitude) - target;
  const double tail = (1.0 - target) - ::erfc(magnitude);
  const double error = (target < 0.5 ? central : tail) * 0.88622692545275801365 * exp(magnitude * magnitude);
  return copysign(magnitude - error / (1.0 + magnitude * error), x);
}
[[gnu::always_inline]] inline double erfinv_ends(double x, double value) {
  const double magnitude = abs(x);
  const double outer = magnitude == 1.0 ? copysign(__builtin_inf(), x) : __builtin_nan("");
  return magnitude < 1.0 ? (x == 0.0 ? x : value) : outer;
}
[[gnu::always_inline]] inline double erfinv(double x) {
  return erfinv_ends(x, erfinv_step(erfinv_step(erfinv_start(x), x), x));
}
[[gnu::always_inline]] inline float erfinv(float x) {
  return static_cast<float>(erfinv_ends(x, erfinv_step(erfinv_start(x), x)));
}

inline double lgamma(double x) { return gamma_series::log_gamma(x); }
inline float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }
inline double digamma(double x) { return gamma_series::digamma(x); }
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
inline double polygamma(double n, double x) { return gamma_series::polygamma(n, x); }
inline float polygamma(float n, float x) {
  return static_cast<float>(polygamma(static_cast<double>(n), static_cast<double>(x)));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
