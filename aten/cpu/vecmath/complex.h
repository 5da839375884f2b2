#pragma once
// Complex functions: the C library's where it has one (their special cases are C99's Annex G), else
// the textbook formula. Not vectorised.
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

[[gnu::always_inline]] inline __complex__ float to_native(c10::complex<float> z) {
  __complex__ float native;
  __real__ native = z.re;
  __imag__ native = z.im;
  return native;
}
[[gnu::always_inline]] inline __complex__ double to_native(c10::complex<double> z) {
  __complex__ double native;
  __real__ native = z.re;
  __imag__ native = z.im;
  return native;
}
[[gnu::always_inline]] inline c10::complex<float> from_native(__complex__ float z) {
  return {__real__ z, __imag__ z};
}
[[gnu::always_inline]] inline c10::complex<double> from_native(__complex__ double z) {
  return {__real__ z, __imag__ z};
}

using cfloat = c10::complex<float>;
using cdouble = c10::complex<double>;

inline cfloat exp(cfloat z) { return from_native(__builtin_cexpf(to_native(z))); }
inline cdouble exp(cdouble z) { return from_native(__builtin_cexp(to_native(z))); }
inline cfloat log(cfloat z) { return from_native(__builtin_clogf(to_native(z))); }
inline cdouble log(cdouble z) { return from_native(__builtin_clog(to_native(z))); }
inline cfloat sqrt(cfloat z) { return from_native(__builtin_csqrtf(to_native(z))); }
inline cdouble sqrt(cdouble z) { return from_native(__builtin_csqrt(to_native(z))); }
inline cfloat sin(cfloat z) { return from_native(__builtin_csinf(to_native(z))); }
inline cdouble sin(cdouble z) { return from_native(__builtin_csin(to_native(z))); }
inline cfloat cos(cfloat z) { return from_native(__builtin_ccosf(to_native(z))); }
inline cdouble cos(cdouble z) { return from_native(__builtin_ccos(to_native(z))); }
inline cfloat tan(cfloat z) { return from_native(__builtin_ctanf(to_native(z))); }
inline cdouble tan(cdouble z) { return from_native(__builtin_ctan(to_native(z))); }
inline cfloat asin(cfloat z) { return from_native(__builtin_casinf(to_native(z))); }
inline cdouble asin(cdouble z) { return from_native(__builtin_casin(to_native(z))); }
inline cfloat acos(cfloat z) { return from_native(__builtin_cacosf(to_native(z))); }
inline cdouble acos(cdouble z) { return from_native(__builtin_cacos(to_native(z))); }
inline cfloat atan(cfloat z) { return from_native(__builtin_catanf(to_native(z))); }
inline cdouble atan(cdouble z) { return from_native(__builtin_catan(to_native(z))); }
inline cfloat sinh(cfloat z) { return from_native(__builtin_csinhf(to_native(z))); }
inline cdouble sinh(cdouble z) { return from_native(__builtin_csinh(to_native(z))); }
inline cfloat cosh(cfloat z) { return from_native(__builtin_ccoshf(to_native(z))); }
inline cdouble cosh(cdouble z) { return from_native(__builtin_ccosh(to_native(z))); }
inline cfloat tanh(cfloat z) { return from_native(__builtin_ctanhf(to_native(z))); }
inline cdouble tanh(cdouble z) { return from_native(__builtin_ctanh(to_native(z))); }
inline cfloat asinh(cfloat z) { return from_native(__builtin_casinhf(to_native(z))); }
inline cdouble asinh(cdouble z) { return from_native(__builtin_casinh(to_native(z))); }
inline cfloat acosh(cfloat z) { return from_native(__builtin_cacoshf(to_native(z))); }
inline cdouble acosh(cdouble z) { return from_native(__builtin_cacosh(to_native(z))); }
inline cfloat atanh(cfloat z) { return from_native(__builtin_catanhf(to_native(z))); }
inline cdouble atanh(cdouble z) { return from_native(__builtin_catanh(to_native(z))); }

template <Complex T>
inline T pow(T base, same_t<T> exponent) {
  // cpow goes through the logarithm, which has no value at 0.
  if (base == T(0)) {
    if (exponent == T(0)) return T(1);
    if (exponent.im == 0 && exponent.re > 0) return T(0);
  }
  return exp(exponent * log(base));
}

template <Complex T>
[[gnu::always_inline]] inline real_t<T> abs(T z) {
  return hypot(z.re, z.im);
}
template <Complex T>
[[gnu::always_inline]] inline real_t<T> angle(T z) {
  return atan2(z.im, z.re);
}
template <Complex T>
[[gnu::always_inline]] inline real_t<T> real(T z) {
  return z.re;
}
template <Complex T>
[[gnu::always_inline]] inline real_t<T> imag(T z) {
  return z.im;
}
template <Complex T>
[[gnu::always_inline]] inline T conj(T z) {
  return {z.re, -z.im};
}
// z / |z|; 0 at 0.
template <Complex T>
inline T sign(T z) {
  const real_t<T> magnitude = abs(z);
  return magnitude == 0 ? T(0) : T(z.re / magnitude, z.im / magnitude);
}

template <Complex T>
inline T exp2(T z) {
  // Each part is scaled: a complex product has NaN where a part is infinite.
  const auto ln2 = static_cast<real_t<T>>(0.693147180559945309417);
  return exp(T(z.re * ln2, z.im * ln2));
}
// e^z - 1 = (expm1(x) cos y - 2 sin^2(y/2)) + i e^x sin y
template <Complex T>
inline T expm1(T z) {
  using R = real_t<T>;
  const R half = sin(z.im * R(0.5));
  return {expm1(z.re) * cos(z.im) - R(2) * half * half, exp(z.re) * sin(z.im)};
}
// Real part by log1p of |1 + z|^2 - 1 = x (2 + x) + y^2.
template <Complex T>
inline T log1p(T z) {
  using R = real_t<T>;
  const R excess = z.re * (R(2) + z.re) + z.im * z.im;
  const R near = R(0.5) * log1p(excess);
  return {excess < R(1) && excess > R(-0.75) ? near : log(hypot(R(1) + z.re, z.im)),
          atan2(z.im, R(1) + z.re)};
}
template <Complex T>
inline T log2(T z) {
  using R = real_t<T>;
  const T l = log(z);
  return {l.re * static_cast<R>(1.44269504088896340736),
          l.im * static_cast<R>(1.44269504088896340736)};
}
template <Complex T>
inline T log10(T z) {
  using R = real_t<T>;
  const T l = log(z);
  return {l.re * static_cast<R>(0.43429448190325182765),
          l.im * static_cast<R>(0.43429448190325182765)};
}
template <Complex T>
inline T rsqrt(T z) {
  return T(1) / sqrt(z);
}
template <Complex T>
inline T sigmoid(T z) {
  return T(1) / (T(1) + exp(-z));
}
// log(e^a + e^b) from the operand of larger real part, so that nothing overflows.
template <Complex T>
inline T logaddexp(T a, same_t<T> b) {
  const T high = a.re >= b.re ? a : b, low = a.re >= b.re ? b : a;
  if (isinf(high.re) && high.re == low.re) {
    // Infinitely small sums stay at their end; infinitely large ones add up.
    return high.re < 0 ? high : log(exp(high) + exp(low));
  }
  return high + log1p(exp(low - high));
}
template <Complex T>
inline T sinc(T z) {
  const T angle = z * T(static_cast<real_t<T>>(3.14159265358979323846));
  return z == T(0) ? T(1) : sin(angle) / angle;
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
