#pragma once
// Integer division, powers and bits. Division by zero gives 0 here; loops report it through
// zero_divisor and the driver raises. The least integer divided by -1 wraps.
#include "aten/cpu/vecmath/basic.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// Error bits (kIntegerDivisionByZero) of one division.
template <typename T>
[[gnu::always_inline]] inline uint32_t zero_divisor(T b) {
  if constexpr (Integer<T>) {
    return b == T(0) ? 1u : 0u;
  } else {
    return 0;
  }
}

// Processors do not divide vectors of integers. Types whose quotients a floating type tells apart
// divide there: an exact quotient is at least 1 / |b| below the next integer n. A unit in the last
// place of n is less, as n |b| is at most 2^16 in float and 2^32 in double, so rounding does not
// reach n. AVX2 has no conversion of uint32.
template <typename T>
inline constexpr bool kDividesAsReal = sizeof(T) < 4 || (sizeof(T) == 4 && SignedInteger<T>);
template <bool kIsNarrow>
struct Dividend {
  using type = float;
};
template <>
struct Dividend<false> {
  using type = double;
};

// Truncating quotient: 0 and -1, with which the quotient may not exist or not fit, are masked.
template <Integer T>
[[gnu::always_inline]] inline T trunc_divide(T a, same_t<T> b) {
  if constexpr (kDividesAsReal<T>) {
    using Real = typename Dividend<(sizeof(T) < 4)>::type;
    const bool negates = SignedInteger<T> && b == static_cast<T>(-1);
    const T divisor = (b == T(0)) | negates ? T(1) : b;
    const auto whole = static_cast<int32_t>(static_cast<Real>(a) / static_cast<Real>(divisor));
    const T quotient = b == T(0) ? T(0) : static_cast<T>(whole);
    return negates ? static_cast<T>(0u - static_cast<uint32_t>(a)) : quotient;
  } else {
    if constexpr (SignedInteger<T>) {
      if (b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    }
    return b == T(0) ? T(0) : static_cast<T>(a / b);
  }
}
template <Integer T>
[[gnu::always_inline]] inline T fmod(T a, same_t<T> b) {
  if constexpr (kDividesAsReal<T>) {
    const uint32_t whole = static_cast<uint32_t>(trunc_divide(a, b));
    const uint32_t rest = static_cast<uint32_t>(a) - whole * static_cast<uint32_t>(b);
    return static_cast<T>(rest * (b == T(0) ? 0u : 1u));  // a choice of results would branch
  } else {
    if constexpr (SignedInteger<T>) {
      if (b == T(-1)) return T(0);
    }
    return b == T(0) ? T(0) : static_cast<T>(a % b);
  }
}
template <Integer T>
[[gnu::always_inline]] inline T remainder(T a, same_t<T> b) {
  const T rest = fmod(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
}
template <Integer T>
[[gnu::always_inline]] inline T floor_divide(T a, same_t<T> b) {
  const T whole = trunc_divide(a, b);
  T rest;
  if constexpr (kDividesAsReal<T>) {
    rest = fmod(a, b);
  } else {  // a second division would take longer than a product
    const uint64_t product = static_cast<uint64_t>(whole) * static_cast<uint64_t>(b);
    rest = static_cast<T>(static_cast<uint64_t>(a) - product);
  }
  const bool inexact = rest != T(0) && (a < T(0)) != (b < T(0));
  return static_cast<T>(whole - inexact);
}

// Wraps on overflow. A negative exponent gives the integer part of the real power.
template <Integer T>
[[gnu::always_inline]] inline T pow(T base, same_t<T> exponent) {
  if (exponent < T(0)) {
    const T odd = exponent & 1 ? T(-1) : T(1);
    return base == T(1) ? T(1) : base == T(-1) ? odd : T(0);
  }
  uint64_t result = 1;
  uint64_t power = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1) {
    if (e & 1) result *= power;
    power *= power;
  }
  return static_cast<T>(result);
}

template <Integer T>
[[gnu::always_inline]] inline T bitwise_not(T x) {
  return static_cast<T>(~x);
}
[[gnu::always_inline]] inline bool bitwise_not(bool x) { return !x; }

// Shifts by a negative count or by the width and more push every bit out.
template <Integer T>
[[gnu::always_inline]] inline T left_shift(T x, same_t<T> count) {
  constexpr uint64_t kBits = sizeof(T) * 8;
  const bool out = static_cast<uint64_t>(count) >= kBits;
  return out ? T(0)
             : static_cast<T>(static_cast<uint64_t>(x) << (static_cast<uint64_t>(count) & 63));
}
template <Integer T>
[[gnu::always_inline]] inline T right_shift(T x, same_t<T> count) {
  constexpr uint64_t kBits = sizeof(T) * 8;
  const bool out = static_cast<uint64_t>(count) >= kBits;
  return static_cast<T>(x >>
                        (out ? (SignedInteger<T> ? int{kBits} - 1 : 0) : static_cast<int>(count))) &
         static_cast<T>(out && !SignedInteger<T> ? 0 : -1);
}

// Without a sign: the magnitude of the least integer does not fit into T.
template <Integer T>
[[gnu::always_inline]] inline uint64_t magnitude(T x) {
  return x < T(0) ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}
template <Integer T>
[[gnu::always_inline]] inline uint64_t common_divisor(T a, T b) {
  uint64_t x = magnitude(a), y = magnitude(b);
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
template <Integer T>
[[gnu::always_inline]] inline T gcd(T a, same_t<T> b) {
  return static_cast<T>(common_divisor(a, b));
}
template <Integer T>
[[gnu::always_inline]] inline T lcm(T a, same_t<T> b) {
  const uint64_t divisor = common_divisor(a, b);
  return divisor == 0 ? T(0) : abs(static_cast<T>(magnitude(a) / divisor * magnitude(b)));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
