#pragma once
// The scalar functions of codegen/primitives.yaml for device code: the names and the meaning of
// aten/cpu/vecmath.h, over CUDA's own math functions (their error bounds: CUDA C++ Programming
// Guide, "Mathematical Functions"). Host calls work too, so that kernels can be checked without a
// GPU.
#include <stdint.h>

#include "aten/core/gamma_series.h"
#include "aten/core/special/value_kinds.h"

namespace flambeau::vec {

template <typename T>
FLAMBEAU_HOST_DEVICE inline T where(bool condition, T a, same_t<T> b) {
  return condition ? a : b;
}

// --- classification and sign

template <typename T>
FLAMBEAU_HOST_DEVICE inline bool isnan(T x) {
  if constexpr (Complex<T>) {
    return x.re != x.re || x.im != x.im;
  } else {
    return x != x;
  }
}
template <typename T>
FLAMBEAU_HOST_DEVICE inline bool isinf(T x) {
  if constexpr (Complex<T>) {
    return isinf(x.re) || isinf(x.im);
  } else if constexpr (Floating<T>) {
    return x == T(__builtin_inf()) || x == -T(__builtin_inf());
  } else {
    return false;
  }
}
template <typename T>
FLAMBEAU_HOST_DEVICE inline bool isfinite(T x) {
  return !isnan(x) && !isinf(x);
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline bool signbit(T x) {
  if constexpr (Floating<T>) {
    return ::copysign(T(1), x) < 0;
  } else {
    return x < T(0);
  }
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T copysign(T x, same_t<T> y) {
  return ::copysign(x, y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T nextafter(T x, same_t<T> y) {
  return ::nextafter(x, y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T frexp_mantissa(T x) {
  int exponent;
  return ::frexp(x, &exponent);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T frexp_exponent(T x) {
  int exponent = 0;
  if (isfinite(x)) ::frexp(x, &exponent);
  return static_cast<T>(exponent);
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T abs(T x) {
  if constexpr (Floating<T>) {
    return ::fabs(x);
  } else if constexpr (Boolean<T>) {
    return x;
  } else {
    return x < T(0) ? static_cast<T>(T(0) - x) : x;
  }
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T sign(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}
template <typename T>
FLAMBEAU_HOST_DEVICE inline T square(T x) {
  return static_cast<T>(x * x);
}

// max and min propagate NaN, fmax and fmin drop it.
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T max(T a, same_t<T> b) {
  return a > b || a != a ? a : b;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T min(T a, same_t<T> b) {
  return a < b || a != a ? a : b;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T fmax(T a, same_t<T> b) {
  return a > b || b != b ? a : b;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T fmin(T a, same_t<T> b) {
  return a < b || b != b ? a : b;
}

// --- rounding; `round` goes to even at halves

template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T floor(T x) {
  if constexpr (Floating<T>)
    return ::floor(x);
  else
    return x;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T ceil(T x) {
  if constexpr (Floating<T>)
    return ::ceil(x);
  else
    return x;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T trunc(T x) {
  if constexpr (Floating<T>)
    return ::trunc(x);
  else
    return x;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T round(T x) {
  if constexpr (Floating<T>)
    return ::rint(x);
  else
    return x;
}

// --- division; an integer divided by 0 gives 0, the least one divided by -1 wraps

template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T trunc_divide(T a, same_t<T> b) {
  if constexpr (Floating<T>) {
    return ::trunc(a / b);
  } else {
    if constexpr (SignedInteger<T>) {
      if (b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    }
    return b == T(0) ? T(0) : static_cast<T>(a / b);
  }
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T fmod(T a, same_t<T> b) {
  if constexpr (Floating<T>) {
    return ::fmod(a, b);
  } else {
    if constexpr (SignedInteger<T>) {
      if (b == T(-1)) return T(0);
    }
    return b == T(0) ? T(0) : static_cast<T>(a % b);
  }
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T remainder(T a, same_t<T> b) {
  const T rest = fmod(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T floor_divide(T a, same_t<T> b) {
  const T rest = fmod(a, b);
  const bool inexact = rest != T(0) && (rest < T(0)) != (b < T(0));
  if constexpr (Floating<T>) {
    if (b == 0) return a / b;
    const T quotient = (a - rest) / b - (inexact ? T(1) : T(0));
    if (quotient == 0) return ::copysign(T(0), a / b);
    const T whole = ::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  } else {
    return static_cast<T>(trunc_divide(a, b) - inexact);
  }
}

// --- bits

template <Integer T>
FLAMBEAU_HOST_DEVICE inline T bitwise_not(T x) {
  return static_cast<T>(~x);
}
FLAMBEAU_HOST_DEVICE inline bool bitwise_not(bool x) { return !x; }
template <Integer T>
FLAMBEAU_HOST_DEVICE inline T left_shift(T x, same_t<T> count) {
  const bool out = count < T(0) || static_cast<int64_t>(count) >= int64_t{sizeof(T) * 8};
  return out ? T(0)
             : static_cast<T>(static_cast<uint64_t>(x) << (static_cast<uint64_t>(count) & 63));
}
template <Integer T>
FLAMBEAU_HOST_DEVICE inline T right_shift(T x, same_t<T> count) {
  const bool out = count < T(0) || static_cast<int64_t>(count) >= int64_t{sizeof(T) * 8};
  if (out) return x < T(0) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(x >> static_cast<int>(count));
}
template <Integer T>
FLAMBEAU_HOST_DEVICE inline T gcd(T a, same_t<T> b) {
  T x = abs(a), y = abs(b);
  while (y != T(0)) {
    const T rest = static_cast<T>(x % y);
    x = y;
    y = rest;
  }
  return x;
}
template <Integer T>
FLAMBEAU_HOST_DEVICE inline T lcm(T a, same_t<T> b) {
  const T divisor = gcd(a, b);
  return divisor == T(0) ? T(0) : abs(static_cast<T>(a / divisor * b));
}
template <Integer T>
FLAMBEAU_HOST_DEVICE inline T pow(T base, same_t<T> exponent) {
  if (exponent < T(0))
    return base == T(1) ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  uint64_t result = 1;
  uint64_t power = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1) {
    if (e & 1) result *= power;
    power *= power;
  }
  return static_cast<T>(result);
}

// --- parts of real numbers

template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T conj(T x) {
  return x;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T real(T x) {
  return x;
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T imag(T) {
  return T(0);
}
template <Ordered T>
FLAMBEAU_HOST_DEVICE inline T angle(T x) {
  return x != x ? x : static_cast<T>(x < T(0) ? gamma_series::kPi : 0.0);
}

}  // namespace flambeau::vec

#include "aten/cuda/vecmath_complex.cuh"
#include "aten/cuda/vecmath_real.cuh"
