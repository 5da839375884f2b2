#pragma once
// Choice, sign, rounding, classification and remainders, for every compute type.
#include <stdint.h>

#include "aten/core/special/value_kinds.h"

// The instruction set of this compilation, as a namespace.
#if defined(__AVX512F__)
#define FLAMBEAU_VEC_TARGET v4
#elif defined(__AVX2__)
#define FLAMBEAU_VEC_TARGET v3
#else
#define FLAMBEAU_VEC_TARGET base
#endif

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// a * b + c, fused where that is one instruction.
[[gnu::always_inline]] inline float madd(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
[[gnu::always_inline]] inline double madd(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

[[gnu::always_inline]] inline int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
[[gnu::always_inline]] inline int64_t bits_of(double x) { return __builtin_bit_cast(int64_t, x); }
[[gnu::always_inline]] inline float from_bits(int32_t x) { return __builtin_bit_cast(float, x); }
[[gnu::always_inline]] inline double from_bits(int64_t x) { return __builtin_bit_cast(double, x); }

template <typename T>
[[gnu::always_inline]] inline T where(bool condition, T a, same_t<T> b) {
  if constexpr (Complex<T>) {
    // Choices between numbers are operations on vectors, choices between objects are not.
    return {condition ? a.re : b.re, condition ? a.im : b.im};
  } else {
    return condition ? a : b;
  }
}

// --- classification: integers are always finite

template <typename T>
[[gnu::always_inline]] inline bool isnan(T x) {
  if constexpr (Complex<T>) {
    return (x.re != x.re) | (x.im != x.im);
  } else if constexpr (Floating<T>) {
    return x != x;
  } else {
    return false;
  }
}
template <typename T>
[[gnu::always_inline]] inline bool isinf(T x) {
  if constexpr (Complex<T>) {
    return isinf(x.re) | isinf(x.im);
  } else if constexpr (__is_same(T, float)) {
    return (x == __builtin_inff()) | (x == -__builtin_inff());
  } else if constexpr (__is_same(T, double)) {
    return (x == __builtin_inf()) | (x == -__builtin_inf());
  } else {
    return false;
  }
}
template <typename T>
[[gnu::always_inline]] inline bool isfinite(T x) {
  return !(isnan(x) | isinf(x));
}
template <Ordered T>
[[gnu::always_inline]] inline bool signbit(T x) {
  if constexpr (Floating<T>) {
    return bits_of(x) < 0;
  } else {
    return x < T(0);
  }
}

// --- sign and magnitude

[[gnu::always_inline]] inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
[[gnu::always_inline]] inline double copysign(double x, double y) {
  return __builtin_copysign(x, y);
}
// The neighbour of x in the direction of y: of one sign, floats are ordered as their bits are.
template <Floating T>
[[gnu::always_inline]] inline T nextafter(T x, same_t<T> y) {
  using Int = decltype(bits_of(x));
  const Int rises = x < y ? 1 : 0, positive = x > T(0) ? 1 : 0;
  const T moved = from_bits(static_cast<Int>(bits_of(x) + 1 - 2 * (rises ^ positive)));
  const T least = copysign(from_bits(Int(1)), y);
  const T value = x == T(0) ? least : moved;
  const T kept = x == y ? y : value;
  const T number = y != y ? y : kept;
  return x != x ? x : number;
}
// Mantissa in [0.5, 1) and exponent of two, 0 for what has none. glibc's exponent of infinities and
// NaN is not specified.
[[gnu::always_inline]] inline float frexp_mantissa(float x) {
  int exponent;
  return __builtin_frexpf(x, &exponent);
}
[[gnu::always_inline]] inline double frexp_mantissa(double x) {
  int exponent;
  return __builtin_frexp(x, &exponent);
}
[[gnu::always_inline]] inline float frexp_exponent(float x) {
  int exponent = 0;
  if (isfinite(x)) __builtin_frexpf(x, &exponent);
  return static_cast<float>(exponent);
}
[[gnu::always_inline]] inline double frexp_exponent(double x) {
  int exponent = 0;
  if (isfinite(x)) __builtin_frexp(x, &exponent);
  return exponent;
}
[[gnu::always_inline]] inline float sqrt(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double sqrt(double x) { return __builtin_sqrt(x); }

[[gnu::always_inline]] inline float abs(float x) { return __builtin_fabsf(x); }
[[gnu::always_inline]] inline double abs(double x) { return __builtin_fabs(x); }
[[gnu::always_inline]] inline bool abs(bool x) { return x; }
template <Integer T>
[[gnu::always_inline]] inline T abs(T x) {
  return x < T(0) ? static_cast<T>(T(0) - x) : x;
}

// -1, 0 or 1; 0 for NaN, as PyTorch's sign.
template <Ordered T>
[[gnu::always_inline]] inline T sign(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}
template <typename T>
[[gnu::always_inline]] inline T square(T x) {
  return static_cast<T>(x * x);
}

// --- the larger and the smaller: max and min propagate NaN, fmax and fmin drop it

// Two selects each: one on a joint condition is not vectorised where it is nested.
template <Ordered T>
[[gnu::always_inline]] inline T max(T a, same_t<T> b) {
  const T larger = a > b ? a : b;
  return a != a ? a : larger;
}
template <Ordered T>
[[gnu::always_inline]] inline T min(T a, same_t<T> b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}
template <Ordered T>
[[gnu::always_inline]] inline T fmax(T a, same_t<T> b) {
  const T larger = a > b ? a : b;
  return b != b ? a : larger;
}
template <Ordered T>
[[gnu::always_inline]] inline T fmin(T a, same_t<T> b) {
  const T smaller = a < b ? a : b;
  return b != b ? a : smaller;
}

// --- rounding; `round` goes to even at halves

[[gnu::always_inline]] inline float floor(float x) { return __builtin_floorf(x); }
[[gnu::always_inline]] inline double floor(double x) { return __builtin_floor(x); }
[[gnu::always_inline]] inline float ceil(float x) { return __builtin_ceilf(x); }
[[gnu::always_inline]] inline double ceil(double x) { return __builtin_ceil(x); }
[[gnu::always_inline]] inline float trunc(float x) { return __builtin_truncf(x); }
[[gnu::always_inline]] inline double trunc(double x) { return __builtin_trunc(x); }
[[gnu::always_inline]] inline float round(float x) { return __builtin_rintf(x); }
[[gnu::always_inline]] inline double round(double x) { return __builtin_rint(x); }
template <Integer T>
[[gnu::always_inline]] inline T floor(T x) {
  return x;
}
template <Integer T>
[[gnu::always_inline]] inline T ceil(T x) {
  return x;
}
template <Integer T>
[[gnu::always_inline]] inline T trunc(T x) {
  return x;
}
template <Integer T>
[[gnu::always_inline]] inline T round(T x) {
  return x;
}

// --- remainders of floats: exact

[[gnu::always_inline]] inline float fmod(float a, float b) {
  // Below 2^28 the quotient in double is off by at most one and every product is exact, but that
  // of 0 and an infinite divisor.
  const double quotient = static_cast<double>(a) / b;
  const bool exact = __builtin_fabs(quotient) < 0x1p28 && __builtin_fabsf(b) <= 3.40282347e38f;
  if (!exact) return __builtin_fmodf(a, b);
  const double wide = b;
  double rest = a - __builtin_trunc(quotient) * wide;
  if (rest != 0 && (rest < 0) != (a < 0)) rest += (a < 0) == (b < 0) ? wide : -wide;
  return __builtin_copysignf(static_cast<float>(rest), a);
}
[[gnu::always_inline]] inline double fmod(double a, double b) { return __builtin_fmod(a, b); }

// Python's %: the sign of the divisor.
template <Floating T>
[[gnu::always_inline]] inline T remainder(T a, same_t<T> b) {
  const T rest = fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// Python's //, from the remainder so that (a // b) * b + a % b is a up to rounding.
template <Floating T>
[[gnu::always_inline]] inline T floor_divide(T a, same_t<T> b) {
  if (b == 0) return a / b;
  const T rest = fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= T(1);
  if (quotient == 0) return copysign(T(0), a / b);
  const T whole = floor(quotient);
  return quotient - whole > T(0.5) ? whole + T(1) : whole;
}

template <Floating T>
[[gnu::always_inline]] inline T trunc_divide(T a, same_t<T> b) {
  return trunc(a / b);
}

// --- parts of real numbers

template <Ordered T>
[[gnu::always_inline]] inline T conj(T x) {
  return x;
}
template <Ordered T>
[[gnu::always_inline]] inline T real(T x) {
  return x;
}
template <Ordered T>
[[gnu::always_inline]] inline T imag(T) {
  return T(0);
}
// pi for negative numbers, NaN for NaN.
template <Ordered T>
[[gnu::always_inline]] inline T angle(T x) {
  return x != x ? x : static_cast<T>(x < T(0) ? 3.14159265358979323846 : 0.0);
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
