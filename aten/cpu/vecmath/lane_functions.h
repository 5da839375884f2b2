#pragma once
// Functions of Lanes: the formulas, ranges and error bounds of their scalar namesakes in exp_log.h
// and special.h, except that the logarithm does not divide.
#include "aten/cpu/vecmath/exp_log.h"
#include "aten/cpu/vecmath/lanes.h"
#include "aten/cpu/vecmath/special.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

#ifdef FLAMBEAU_HAS_LANES

// (log(1 + f) - f + f^2 / 2) / f^3 on -0.25 <= f <= 0.5, to 2^-25.
[[gnu::always_inline]] inline Lanes log1p_tail(Lanes f) {
  Lanes p = madd(4.287197804e-2f, f, -9.561340014e-2f);
  p = madd(p, f, 0.1168068179f);
  p = madd(p, f, -0.1263931114f);
  p = madd(p, f, 0.1426830597f);
  p = madd(p, f, -0.1666081753f);
  p = madd(p, f, 0.200001409f);
  p = madd(p, f, -0.2500005671f);
  return madd(p, f, 0.3333333315f);
}

// e^x = value * 2^k. The low bits of `shifted` are k.
struct ExpLanes {
  Lanes value;
  Lanes shifted;
};
[[gnu::always_inline]] inline ExpLanes exp_parts(Lanes x) {
  using F = Format<float>;
  const Lanes shifted = madd(x, kLog2e<float>, F::kRound);
  const Lanes k = shifted - F::kRound;
  const Lanes r = madd(k, -F::kLn2Low, madd(k, -F::kLn2High, x));
  return {1.0f + madd(exp_tail(r) * r, r, r), shifted};
}

// e^x; 1 ulp. Lanes whose results underflow to 0 are not scaled, as in exp of numbers. Where there
// is no instruction that scales and all results are normal numbers, one sum of integers scales
// them.
[[gnu::always_inline]] inline Lanes exp(Lanes x) {
  using F = Format<float>;
#ifndef __AVX512F__
  if (!any_of(not_less(abs(x), -F::kExpNormalLow))) [[likely]] {
    const ExpLanes p = exp_parts(x);
    return from_bits(bits_of(p.value) + (bits_of(p.shifted) << F::kMantissa));
  }
#endif
  const ExpLanes p = exp_parts(at_most(x, F::kExpHigh));
  return scale_where(not_less(x, F::kExpLow), p.value, p.shifted - F::kRound);
}

// Natural logarithm; 1 ulp. The exponents of 0 and infinity are the results there.
[[gnu::always_inline]] inline Lanes log(Lanes x) {
  using F = Format<float>;
  const ScaledLanes p = split_scale(x);
  const Lanes f = p.m - 1.0f;
  const Lanes low = madd(madd(log1p_tail(f), f, -0.5f), f * f, p.k * F::kLn2Low);
  return madd(p.k, F::kLn2High, f + low);
}

// 3 ulp. It is 1 in float from 9.02 on.
[[gnu::always_inline]] inline Lanes tanh(Lanes x) {
  using F = Format<float>;
  const Lanes bounded = at_most(abs(x), 10.0f);
  constexpr float kRound = F::kRound + F::kBias;
  const Lanes shifted = madd(bounded, 2 * kLog2e<float>, kRound);
  const Lanes k = shifted - kRound;
  const Lanes r = madd(k, -F::kLn2Low, madd(k, -F::kLn2High, bounded + bounded));
  const Lanes power = from_bits(bits_of(shifted) << F::kMantissa);
  const Lanes e = madd(power, madd(exp_tail(r) * r, r, r), power - 1.0f);
  return with_sign_of(x, e / (e + 2.0f));
}

// Inverse of erf; 4 ulp. The fit of the tail is skipped where no lane needs it.
[[gnu::always_inline]] inline Lanes erfinv(Lanes x) {
  const Lanes w = -log((1.0f - x) * (1.0f + x));
  Lanes p = erfinv_center(w - 2.5f);
  if (any_of(not_less(w, 5.0f))) [[unlikely]] {
    const Lanes tail = erfinv_tail(sqrt(w) - 3.0f);
    p = w < 5.0f ? p : w < __builtin_inff() ? tail : w;
  }
  return p * x;
}

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
