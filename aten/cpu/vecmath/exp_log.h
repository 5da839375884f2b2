#pragma once
// Exponentials, logarithms and what follows from them. Polynomials are Chebyshev fits made for this
// file. exp: x = k ln2 + r, |r| <= ln2/2. log: x = 2^k m, m in [sqrt(1/2), sqrt(2)), through
// s = (m - 1) / (m + 1) as log m = 2 s + s^3 R(s^2).
#include "aten/cpu/vecmath/basic.h"
#include "aten/cpu/vecmath/lanes.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// --- constants of the two formats

template <typename T>
struct Format;
template <>
struct Format<float> {
  using Int = int32_t;
  using Unsigned = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr float kRound =
      0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  static constexpr float kLn2High = 0.693115234375f;  // 12 bits: times |k| < 256 is exact
  static constexpr float kLn2Low = 3.19461849453094172e-5f;
  static constexpr float kLog2eHigh = 1.4423828125f;
  static constexpr float kLog2eLow = 3.1222838896340736e-4f;
  static constexpr float kLog10eHigh = 0.4342041015625f;
  static constexpr float kLog10eLow = 9.03803407518276511e-5f;
  static constexpr float kLog10Of2High = 0.301025390625f;
  static constexpr float kLog10Of2Low = 4.60503898119521374e-6f;
  static constexpr float kExpLow = -104.0f;  // exp of less is 0, of more infinite
  static constexpr float kExpHigh = 89.0f;
  static constexpr float kExpNormalLow = -87.0f;
  static constexpr float kExpNormalHigh = 88.0f;
  static constexpr float kExp2Low = -150.0f;
  static constexpr float kExp2High = 128.5f;
  static constexpr int32_t kSqrtHalf = 0x3f3504f3;
  static constexpr int32_t kLeastNormal = 0x00800000;
  static constexpr int32_t kHighHalf = static_cast<int32_t>(0xfffff000u);
};
template <>
struct Format<double> {
  using Int = int64_t;
  using Unsigned = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr double kRound = 0x1.8p52;
  static constexpr double kLn2High = 0.69314718036912381649;  // 32 bits
  static constexpr double kLn2Low = 1.90821492927058782e-10;
  static constexpr double kLog2eHigh = 1.4426950407214462757;
  static constexpr double kLog2eLow = 1.67517131648865111e-10;
  static constexpr double kLog10eHigh = 0.43429448187816888094;
  static constexpr double kLog10eLow = 2.50829467116452763e-11;
  static constexpr double kLog10Of2High = 0.30102999554947018623;
  static constexpr double kLog10Of2Low = 1.14511008980218387e-10;
  static constexpr double kExpLow = -746.0;
  static constexpr double kExpHigh = 710.0;
  static constexpr double kExpNormalLow = -708.0;
  static constexpr double kExpNormalHigh = 709.0;
  static constexpr double kExp2Low = -1076.0;
  static constexpr double kExp2High = 1025.0;
  static constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  static constexpr int64_t kLeastNormal = 0x0010000000000000;
  static constexpr int64_t kHighHalf = static_cast<int64_t>(0xffffffff00000000u);
};

template <typename T>
inline constexpr T kLog2e = static_cast<T>(1.44269504088896340736);

// (exp(r) - 1 - r) / r^2 on |r| <= ln2/2, to 2^-31 and 2^-60.
template <typename T>  // float or Lanes
[[gnu::always_inline]] inline T exp_tail(T r) {
  T p = madd(1.989108046e-4f, r, 1.393373072e-3f);
  p = madd(p, r, 8.333310845e-3f);
  p = madd(p, r, 4.16664642e-2f);
  p = madd(p, r, 0.1666666668f);
  return madd(p, r, 0.5f);
}
[[gnu::always_inline]] inline double exp_tail(double r) {
  double p = madd(2.09147553258932022e-9, r, 2.51053127296221018e-8);
  p = madd(p, r, 2.75572734787185805e-7);
  p = madd(p, r, 2.75572551700008874e-6);
  p = madd(p, r, 2.48015873256774619e-5);
  p = madd(p, r, 1.98412698750022788e-4);
  p = madd(p, r, 1.38888888888837112e-3);
  p = madd(p, r, 8.33333333332608312e-3);
  p = madd(p, r, 4.16666666666666698e-2);
  p = madd(p, r, 0.16666666666666671);
  return madd(p, r, 0.5);
}

// log(m) = 2 s + s^3 log_tail(s^2), to 2^-35 and 2^-57.
[[gnu::always_inline]] inline float log_tail(float z) {
  float p = madd(0.2333276296f, z, 0.2855073636f);
  p = madd(p, z, 0.4000012258f);
  return madd(p, z, 0.6666666655f);
}
[[gnu::always_inline]] inline double log_tail(double z) {
  double p = madd(0.146191661348879714, z, 0.153315016111453277);
  p = madd(p, z, 0.18182895750119194);
  p = madd(p, z, 0.222222110437768582);
  p = madd(p, z, 0.285714286265336159);
  p = madd(p, z, 0.399999999998982728);
  return madd(p, z, 0.666666666666666973);
}

// --- exponentials

// x = k ln2 + r. `biased` is k + kBias in its low bits: shifted by the mantissa's bits it is the
// exponent of 2^(k + kBias - Format<T>::kBias) and nothing else.
template <typename T>
struct ExpParts {
  T r;
  typename Format<T>::Unsigned biased;
};
template <int kBias, typename T>
[[gnu::always_inline]] inline ExpParts<T> reduce_exp(T x) {
  using F = Format<T>;
  constexpr T kRound = F::kRound + kBias;
  const T shifted = madd(x, kLog2e<T>, kRound);
  const T k = shifted - kRound;
  T r = madd(-k, F::kLn2High, x);
  r = madd(-k, F::kLn2Low, r);
  return {r, static_cast<typename F::Unsigned>(bits_of(shifted))};
}
template <typename T>
[[gnu::always_inline]] inline T power_of_two(typename Format<T>::Unsigned biased) {
  using F = Format<T>;
  return from_bits(static_cast<typename F::Int>(biased << F::kMantissa));
}
// value * 2^k for |k| < 2^(exponent bits), from k + 2 * Format<T>::kBias: in two steps, so that
// denormals and overflow come out right.
template <typename T>
[[gnu::always_inline]] inline T scale_by(T value, typename Format<T>::Unsigned biased) {
  const auto half = biased >> 1;
  return value * power_of_two<T>(half) * power_of_two<T>(biased - half);
}
template <typename T>
[[gnu::always_inline]] inline T clamp_keeping_nan(T x, T low, T high) {
  const T raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// e^x; 1 ulp. Results that underflow to 0, those of masked elements for example, are chosen and not
// computed: a product that underflows takes a processor more than a hundred cycles.
template <Floating T>
[[gnu::always_inline]] inline T exp(T x) {
  using F = Format<T>;
  const bool vanishes = x < F::kExpLow;
  const T raised = vanishes ? T(0) : x;
  const ExpParts<T> p = reduce_exp<2 * F::kBias>(raised > F::kExpHigh ? F::kExpHigh : raised);
  const T value = scale_by(T(1) + madd(exp_tail(p.r) * p.r, p.r, p.r), p.biased);
  return vanishes ? T(0) : value;
}

// e^x where the result is a normal number: cheaper, and pinned to the normal range outside it.
template <Floating T>
[[gnu::always_inline]] inline T exp_normal(T x) {
  using F = Format<T>;
  using U = typename F::Unsigned;
  const T bounded = clamp_keeping_nan(x, F::kExpNormalLow, F::kExpNormalHigh);
  const ExpParts<T> p = reduce_exp<0>(bounded);
  const T value = T(1) + madd(exp_tail(p.r) * p.r, p.r, p.r);
  const U raised = static_cast<U>(bits_of(value)) + (p.biased << F::kMantissa);
  const T result = from_bits(static_cast<typename F::Int>(raised));
  return x != x ? x : result;
}

// e^x for x <= 0, where one step scales, by a power that stays normal, and the second is constant;
// 1 ulp. Results that underflow to 0 are chosen, as in exp.
template <Floating T>
[[gnu::always_inline]] inline T exp_nonpositive(T x) {
  using F = Format<T>;
  const bool vanishes = x < F::kExpLow;
  const ExpParts<T> p = reduce_exp<F::kBias + 64>(vanishes ? T(0) : x);
  const T scale = power_of_two<T>(p.biased);
  const T value = (T(1) + madd(exp_tail(p.r) * p.r, p.r, p.r)) * scale * static_cast<T>(0x1p-64);
  return vanishes ? T(0) : value;
}

// 2^x; 1 ulp. The integer part is split off exactly.
template <Floating T>
[[gnu::always_inline]] inline T exp2(T x) {
  using F = Format<T>;
  const bool vanishes = x < F::kExp2Low;
  const T raised = vanishes ? T(0) : x;
  const T bounded = raised > F::kExp2High ? F::kExp2High : raised;
  constexpr T kRound = F::kRound + 2 * F::kBias;
  const T shifted = bounded + kRound;
  const T r = (bounded - (shifted - kRound)) * static_cast<T>(0.693147180559945309417);
  const T value = T(1) + madd(exp_tail(r) * r, r, r);
  const T scaled = scale_by(value, static_cast<typename F::Unsigned>(bits_of(shifted)));
  return vanishes ? T(0) : scaled;
}

// e^x - 1 without cancellation; 2 ulp.
template <Floating T>
[[gnu::always_inline]] inline T expm1(T x) {
  using F = Format<T>;
  const T bounded = clamp_keeping_nan(x, T(-40), F::kExpHigh);
  // 2^(k-1), doubled at the end: 2^k itself may overflow where the result does not.
  const ExpParts<T> p = reduce_exp<F::kBias - 1>(bounded);
  const T e = madd(exp_tail(p.r) * p.r, p.r, p.r);
  const T half = power_of_two<T>(p.biased);
  const T value = T(2) * madd(half, e, half - T(0.5));
  return x == T(0) ? x : value;  // keeps -0
}

// --- logarithms

// x = 2^k (1 + f); log(1 + f) = f - (half_square - s (half_square + tail)).
template <typename T>
struct LogParts {
  T k;
  T f;
};
[[gnu::always_inline]] inline float exponent_as_real(int32_t biased) {
  return static_cast<float>(biased);
}
// int64 to double without the conversion that AVX2 lacks: the integer sits in the mantissa of 2^52.
[[gnu::always_inline]] inline double exponent_as_real(int64_t biased) {
  return from_bits(biased | 0x4330000000000000) - 0x1p52;
}
template <typename T>
[[gnu::always_inline]] inline LogParts<T> split_log(T x) {
  using F = Format<T>;
  using Int = typename F::Int;
  using U = typename F::Unsigned;
  const bool denormal = x < from_bits(F::kLeastNormal);
  const T scaled = denormal ? x * static_cast<T>(0x1p54) : x;
  constexpr Int kOne = static_cast<Int>(static_cast<U>(F::kBias) << F::kMantissa);
  const U moved = static_cast<U>(bits_of(scaled)) + static_cast<U>(kOne - F::kSqrtHalf);
  const T k = exponent_as_real(static_cast<Int>(moved >> F::kMantissa)) - T(F::kBias);
  constexpr U kMask = (U(1) << F::kMantissa) - 1;
  const T m = from_bits(static_cast<Int>((moved & kMask) + static_cast<U>(F::kSqrtHalf)));
  return {denormal ? k - T(54) : k, m - T(1)};
}
// What log of 0, negative numbers, infinity and NaN is; `value` elsewhere.
template <typename T>
[[gnu::always_inline]] inline T log_special(T x, T value) {
  const T infinity = static_cast<T>(__builtin_inf());
  const T upper = x < infinity ? value : x;  // infinity and NaN stay
  const T nonnegative = x < T(0) ? static_cast<T>(__builtin_nan("")) : upper;
  return x == T(0) ? -infinity : nonnegative;
}
template <typename T>
[[gnu::always_inline]] inline T log_of_parts(T k, T f, T correction) {
  using F = Format<T>;
  const T s = f / (T(2) + f);
  const T z = s * s;
  const T half_square = T(0.5) * f * f;
  const T tail = z * log_tail(z);
  const T low = madd(k, F::kLn2Low, correction);
  return madd(k, F::kLn2High, f - (half_square - madd(s, half_square + tail, low)));
}

// Natural logarithm; 1 ulp.
template <Floating T>
[[gnu::always_inline]] inline T log(T x) {
  const LogParts<T> p = split_log(x);
  return log_special(x, log_of_parts(p.k, p.f, T(0)));
}

// log(1 + x) without cancellation; 2 ulp. The rounding error of 1 + x is added back.
template <Floating T>
[[gnu::always_inline]] inline T log1p(T x) {
  const T u = T(1) + x;
  const LogParts<T> p = split_log(u);
  const T error = u > T(2) ? T(1) - (u - x) : x - (u - T(1));
  const bool small = p.k == T(0);
  const T correction = small ? T(0) : error / u;
  const T value = log_of_parts(p.k, small ? x : p.f, correction);
  return x == T(0) ? x : log_special(u, value);
}

// log(1 + f) as high + low, high with half the bits so that products with constants are exact.
template <typename T>
struct SplitSum {
  T high;
  T low;
};
template <typename T>
[[gnu::always_inline]] inline SplitSum<T> log_split(T f) {
  const T s = f / (T(2) + f);
  const T z = s * s;
  const T half_square = T(0.5) * f * f;
  const T tail = z * log_tail(z);
  const T high = from_bits(bits_of(f - half_square) & Format<T>::kHighHalf);
  return {high, (f - high) - half_square + s * (half_square + tail)};
}

// Logarithm to base 2, exact at powers of two; 1 ulp.
template <Floating T>
[[gnu::always_inline]] inline T log2(T x) {
  using F = Format<T>;
  const LogParts<T> p = split_log(x);
  const SplitSum<T> l = log_split(p.f);
  const T main = l.high * F::kLog2eHigh;
  const T sum = p.k + main;
  const T rest = (l.low + l.high) * F::kLog2eLow + l.low * F::kLog2eHigh + ((p.k - sum) + main);
  return log_special(x, sum + rest);
}

// Logarithm to base 10; 1 ulp.
template <Floating T>
[[gnu::always_inline]] inline T log10(T x) {
  using F = Format<T>;
  const LogParts<T> p = split_log(x);
  const SplitSum<T> l = log_split(p.f);
  const T main = l.high * F::kLog10eHigh;
  const T whole = p.k * F::kLog10Of2High;
  const T sum = whole + main;
  const T rest = p.k * F::kLog10Of2Low + (l.low + l.high) * F::kLog10eLow + l.low * F::kLog10eHigh +
                 ((whole - sum) + main);
  return log_special(x, sum + rest);
}

// --- what follows from them

template <Floating T>
[[gnu::always_inline]] inline T rsqrt(T x) {
  return T(1) / sqrt(x);
}

// 2 ulp.
template <Floating T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  const T e = exp_nonpositive(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

// 3 ulp. Saturates long before expm1 overflows.
template <Floating T>
[[gnu::always_inline]] inline T tanh(T x) {
  const T magnitude = abs(x);
  const T e = expm1(magnitude > T(20) ? T(40) : magnitude * T(2));  // NaN stays
  return copysign(e / (e + T(2)), x);
}

// log(1 + e^x), no overflow.
template <Floating T>
[[gnu::always_inline]] inline T softplus(T x) {
  return (x > T(0) ? x : T(0)) + log1p(exp(-abs(x))) + (x != x ? x : T(0));
}
template <Floating T>
[[gnu::always_inline]] inline T log_sigmoid(T x) {
  return (x < T(0) ? x : T(0)) - log1p(exp(-abs(x))) + (x != x ? x : T(0));
}

// log(e^a + e^b). Equal infinities give themselves.
template <Floating T>
[[gnu::always_inline]] inline T logaddexp(T a, same_t<T> b) {
  const T top = max(a, b);
  const T gap = abs(a - b);
  const T value = top + log1p(exp(-gap));
  return a == b ? a + static_cast<T>(0.693147180559945309417) : top != top ? top : value;
}
template <Floating T>
[[gnu::always_inline]] inline T logaddexp2(T a, same_t<T> b) {
  const T top = max(a, b);
  const T gap = abs(a - b);
  const T value = madd(log1p(exp2(-gap)), static_cast<T>(1.44269504088896340736), top);
  return a == b ? a + T(1) : top != top ? top : value;
}

// x log(y) and x log(1 + y), 0 where x is 0 and y is not NaN.
template <Floating T>
[[gnu::always_inline]] inline T xlogy(T x, same_t<T> y) {
  return y != y ? y : x == T(0) ? T(0) : x * log(y);
}
template <Floating T>
[[gnu::always_inline]] inline T xlog1py(T x, same_t<T> y) {
  return y != y ? y : x == T(0) ? T(0) : x * log1p(y);
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
