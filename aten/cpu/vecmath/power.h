#pragma once
// Powers. float32 is computed in double precision: with z = y log2|x|, x^y = 2^n 2^(z - n), n the
// nearest integer. Both polynomials are Chebyshev fits, to 2^-37 of log2 m and 2^-34 of 2^(z - n),
// so the result has little more than the error of one rounding, 0.51 ulp. double, and float32
// without AVX2, go to libmvec, at most 4 ulp. Its gathers are slow on processors that are guarded
// against Gather Data Sampling.
#include "aten/cpu/vecmath/exp_log.h"

extern "C" {
[[gnu::simd("notinbranch"), gnu::const]] float powf(float, float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double pow(double, double) noexcept(true);
}

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// |x|^y with the sign and the special cases of x^y: libmvec's functions leave the vector for a
// negative base.
template <Floating T>
[[gnu::always_inline]] inline T power_ends(T x, T y, T value) {
  const T half = y * T(0.5);
  const bool integral = round(y) == y;
  const bool odd = integral & (round(half) != half);
  const T infinity = static_cast<T>(__builtin_inf());
  const T signed_value = odd & signbit(x) ? -value : value;
  const bool imaginary = (x < T(0)) & (x != -infinity) & !integral;
  const T real = imaginary ? static_cast<T>(__builtin_nan("")) : signed_value;
  const bool is_one = (y == T(0)) | (x == T(1)) | ((x == T(-1)) & (abs(y) == infinity));
  return is_one ? T(1) : real;
}

// log2 of a float32 number as a double: k + log2 m from s = (m - 1) / (m + 1), m in
// [sqrt(1/2), sqrt(2)).
[[gnu::always_inline]] inline double wide_log2(double x) {
  using F = Format<double>;
  constexpr uint64_t kOne = 0x3ff0000000000000;
  constexpr uint64_t kMantissaBits = (uint64_t{1} << F::kMantissa) - 1;
  const uint64_t raised = static_cast<uint64_t>(bits_of(x)) + (kOne - F::kSqrtHalf);
  // The exponent as the low bits of 2^52 + k + bias: no conversion of 64-bit integers is needed.
  const double k = from_bits(static_cast<int64_t>((raised >> F::kMantissa) | 0x4330000000000000)) -
                   (0x1p52 + F::kBias);
  const double m = from_bits(static_cast<int64_t>((raised & kMantissaBits) + F::kSqrtHalf));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 0.3407272420647597;
  p = madd(p, z, 0.41167288708052574);
  p = madd(p, z, 0.577083581884505);
  p = madd(p, z, 0.9617966733598565);
  p = madd(p, z, 2.8853900817900686);
  return log_special(x, madd(p, s, k));
}

// 2^z for float32's exponents, and 0 or infinity beyond.
[[gnu::always_inline]] inline float narrow_exp2(double z) {
  using F = Format<double>;
  constexpr double kRound = F::kRound + F::kBias;
  const double bounded = clamp_keeping_nan(z, -200.0, 200.0);
  const double shifted = bounded + kRound;
  const double r = bounded - (shifted - kRound);
  double p = 1.5310079792222475e-05;
  p = madd(p, r, 0.0001546973196552722);
  p = madd(p, r, 0.0013333450565513618);
  p = madd(p, r, 0.009618025602992415);
  p = madd(p, r, 0.05550410941209863);
  p = madd(p, r, 0.2402265121359498);
  p = madd(p, r, 0.6931471805459327);
  p = madd(p, r, 0.9999999999595479);
  return static_cast<float>(p * power_of_two<double>(static_cast<uint64_t>(bits_of(shifted))));
}

[[gnu::always_inline]] inline float pow(float x, float y) {
#ifdef __FMA__
  const double z = static_cast<double>(y) * wide_log2(static_cast<double>(abs(x)));
  return power_ends(x, y, narrow_exp2(z));
#else
  return power_ends(x, y, ::powf(abs(x), y));
#endif
}
[[gnu::always_inline]] inline double pow(double x, double y) {
  return power_ends(x, y, ::pow(abs(x), y));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
