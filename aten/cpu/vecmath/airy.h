#pragma once
// The Airy function Ai without a branch: the four formulas of aten/core/special/bessel.h are
// evaluated, then one is chosen. In double, for float with as many terms of each series as reach
// 2^-36. NaN for NaN and infinities, as in PyTorch.
// Error bound (tested): 8 eps on [-2, 100], elsewhere of the amplitude, times the phase beyond -7.
// Source: Abramowitz & Stegun 10.4.
#include "aten/core/special/airy_fits.h"
#include "aten/cpu/vecmath/ordinary_bessel.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

template <typename T>
[[gnu::always_inline]] inline double airy_ai_right(double z, double fourth) {
  constexpr double kTwiceStart = 3.77123616632825346349;  // 2 z(2)
  constexpr double kFactor = 0.28209479177387814347;      // 1 / (2 sqrt(pi))
  const double series = series_sum<T, special::kAiryLarge, 0.9>(kTwiceStart / z - 1.0);
  return series * exp_nonpositive(-z) * kFactor / fourth;
}
template <typename T>
[[gnu::always_inline]] inline double airy_ai_far_left(double z, double fourth) {
  constexpr double kTwiceStartSquared = 304.888888888888888889;  // 2 z(7)^2
  constexpr double kFactor = 0.56418958354775628695;             // 1 / sqrt(pi)
  const double t = kTwiceStartSquared / (z * z) - 1.0;
  // Two cosines: sine and cosine of one number would become one call, which has no form for
  // vectors.
  const double cosine = cos(z - 0.78539816339744830962), sine = cos(z - 2.35619449019234492885);
  const double p = series_sum<T, special::kAiryP, 0.9>(t);
  const double q = series_sum<T, special::kAiryQ, 0.9>(t) / z;
  return madd(cosine, p, sine * q) * kFactor / fourth;
}
template <Floating T>
[[gnu::always_inline]] inline T airy_ai(T number) {
  const double x = number, size = abs(x), root = sqrt(size), fourth = sqrt(root);
  const double z = 0.66666666666666666667 * size * root;
  const double middle = series_sum<T, special::kAiryMiddle, 0.03>(0.5 * x);
  const double left = series_sum<T, special::kAiryLeft, 1e-3>((x + 4.5) / 2.5);
  const double right = airy_ai_right<T>(z, fourth), far = airy_ai_far_left<T>(z, fourth);
  const double outer = x > 0.0 ? right : far;
  const double below = (x < -2.0) & (x >= -7.0) ? left : outer;
  const double value = size <= 2.0 ? middle : below;
  return static_cast<T>(value + (x - x));  // NaN where x is not finite
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
