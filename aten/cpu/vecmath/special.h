#pragma once
// Error functions and the gamma family.
#include "aten/core/gamma_series.h"
#include "aten/cpu/vecmath/gamma.h"
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// Below 1: x P(x^2). Above: 1 - exp(Q(|x|)) with Q a fit of log(erfc), which is 1 in float
// from 3.92 on. 2 ulp.
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
  return magnitude < 1.0f ? x * p : copysign(1.0f - exp_normal(q), x);
}
[[gnu::always_inline]] inline double erf(double x) { return ::erf(x); }
[[gnu::always_inline]] inline float erfc(float x) { return ::erfcf(x); }
[[gnu::always_inline]] inline double erfc(double x) { return ::erfc(x); }

// The normal distribution function: 2^(|x| P(|x|)) / 2 below 0, one less that of -x above. In float
// within 6e-8 of the exact value, and 0 below -5.6, where that is less than 2e-8; in double 4 ulp
// of erfc, and the rounding of its argument, which x^2 magnifies below 0.
[[gnu::always_inline]] inline float normal_cdf(float x) {
  constexpr float kEnd = 5.6f;
  const float magnitude = abs(x);
  const float t = magnitude > kEnd ? kEnd : magnitude;
  float p = madd(4.025941394e-7f, t, -8.041123692e-6f);
  p = madd(p, t, 6.651557487e-5f);
  p = madd(p, t, -2.59775843e-4f);
  p = madd(p, t, -2.512446372e-5f);
  p = madd(p, t, 6.968024652e-3f);
  p = madd(p, t, -5.245289207e-2f);
  p = madd(p, t, -0.45921731f);
  p = madd(p, t, -1.151104569f);
  const float exponent = p * t;
  const float shifted = exponent + Format<float>::kRound;
  const float r = exponent - (shifted - Format<float>::kRound);
  float e = madd(1.547548745e-4f, r, 1.340029878e-3f);
  e = madd(e, r, 9.618006647e-3f);
  e = madd(e, r, 5.550327525e-2f);
  e = madd(e, r, 0.2402265072f);
  e = madd(e, r, 0.6931471825f);
  e = madd(e, r, 1.0f);
  const uint32_t biased = static_cast<uint32_t>(bits_of(shifted)) -
                          static_cast<uint32_t>(bits_of(Format<float>::kRound)) + 126u;
  const float half = from_bits(static_cast<int32_t>(biased << Format<float>::kMantissa));
  const float tail = magnitude > kEnd ? 0.0f : e * half;
  return x < 0.0f ? tail : 1.0f - tail;
}
[[gnu::always_inline]] inline double normal_cdf(double x) {
  return 0.5 * ::erfc(-0.70710678118654752440 * x);
}

// Inverse of erf as x P(w), w = -log(1 - x^2), in two pieces as Giles does (GPU Computing Gems
// 2011), with fits of our own: to 2^-30 for w < 5; beyond in sqrt(w), to 2^-27 as far as float
// reaches, to 2^-23 for double, which a Halley step on erf or erfc follows. 4 ulp.
template <typename V>  // float, double or Lanes
[[gnu::always_inline]] inline V erfinv_center(V c) {
  using T = element_t<V>;
  V p = madd(T(1.2346577114502573e-10), c, T(4.3406268038539931e-10));
  p = madd(p, c, T(-1.0861761271594343e-08));
  p = madd(p, c, T(1.650364404121373e-08));
  p = madd(p, c, T(4.7868970845588584e-07));
  p = madd(p, c, T(-3.4262662097342681e-06));
  p = madd(p, c, T(-4.9960001101439557e-06));
  p = madd(p, c, T(0.0002182641252155226));
  p = madd(p, c, T(-0.0012527079573557702));
  p = madd(p, c, T(-0.0041773250804577628));
  p = madd(p, c, T(0.24664027674858424));
  p = madd(p, c, T(1.5014093517481764));
  return p;
}
template <typename V>  // float or Lanes
[[gnu::always_inline]] inline V erfinv_tail(V t) {
  using T = float;
  V p = madd(T(-3.4373901474205482e-05), t, T(0.000169035126126386));
  p = madd(p, t, T(-0.00027362494636670791));
  p = madd(p, t, T(-0.00013173649560769876));
  p = madd(p, t, T(0.0014752574201712515));
  p = madd(p, t, T(-0.0035616019912898065));
  p = madd(p, t, T(0.0056871019894828194));
  p = madd(p, t, T(-0.0076437447720155141));
  p = madd(p, t, T(0.0094453981683142001));
  p = madd(p, t, T(1.0016752853193525));
  p = madd(p, t, T(2.8329767996474602));
  return p;
}
[[gnu::always_inline]] inline double erfinv_tail(double t) {
  using T = double;
  T p = madd(T(-3.0971342420782707e-07), t, T(5.1956077825438082e-06));
  p = madd(p, t, T(-3.6090201876838226e-05));
  p = madd(p, t, T(0.00012871673398377935));
  p = madd(p, t, T(-0.00020947943063116912));
  p = madd(p, t, T(-0.00012059625026002465));
  p = madd(p, t, T(0.0014001585052249947));
  p = madd(p, t, T(-0.0035401564033343126));
  p = madd(p, t, T(0.0057167528445748799));
  p = madd(p, t, T(-0.0076544878860230247));
  p = madd(p, t, T(0.0094410338399536862));
  p = madd(p, t, T(1.0016763087406755));
  p = madd(p, t, T(2.8329769276328478));
  return p;
}
template <Floating T>
[[gnu::always_inline]] inline T erfinv_start(T x) {
  const T w = -log((T(1) - x) * (T(1) + x));
  const T center = erfinv_center(w - T(2.5));
  const T tail = erfinv_tail(sqrt(w) - T(3));
  return (w < T(5) ? center : tail) * x;
}
[[gnu::always_inline]] inline double erfinv_step(double y, double x) {
  const double magnitude = abs(y);
  const double target = abs(x);
  const double central = ::erf(magnitude) - target;
  const double tail = (1.0 - target) - ::erfc(magnitude);
  const double error =
      (target < 0.5 ? central : tail) * 0.88622692545275801365 * exp(magnitude * magnitude);
  return copysign(magnitude - error / (1.0 + magnitude * error), x);
}
template <Floating T>
[[gnu::always_inline]] inline T erfinv_ends(T x, T value) {
  const T magnitude = abs(x);
  const T infinity = copysign(static_cast<T>(__builtin_inf()), x);
  const T outer = magnitude == T(1) ? infinity : static_cast<T>(__builtin_nan(""));
  return magnitude < T(1) ? (x == T(0) ? x : value) : outer;
}
[[gnu::always_inline]] inline double erfinv(double x) {
  return erfinv_ends(x, erfinv_step(erfinv_start(x), x));
}
[[gnu::always_inline]] inline float erfinv(float x) { return erfinv_ends(x, erfinv_start(x)); }

inline double polygamma(double n, double x) { return gamma_series::polygamma(n, x); }
inline float polygamma(float n, float x) {
  return static_cast<float>(polygamma(static_cast<double>(n), static_cast<double>(x)));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
