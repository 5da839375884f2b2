#pragma once
// Complex functions; part of aten/cuda/vecmath.cuh. The inverse functions follow W. Kahan, "Branch
// Cuts for Complex Elementary Functions" (1987): accurate on both sides of the cuts.
#include "aten/cuda/vecmath.cuh"

namespace flambeau::vec {

template <Complex T>
FLAMBEAU_HOST_DEVICE inline real_t<T> abs(T z) {
  return ::hypot(z.re, z.im);
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline real_t<T> angle(T z) {
  return ::atan2(z.im, z.re);
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline real_t<T> real(T z) {
  return z.re;
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline real_t<T> imag(T z) {
  return z.im;
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T conj(T z) {
  return {z.re, -z.im};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sign(T z) {
  const real_t<T> magnitude = abs(z);
  return magnitude == 0 ? T(0) : T(z.re / magnitude, z.im / magnitude);
}

// The principal root: halves are taken of the larger part, so nothing cancels.
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sqrt(T z) {
  using R = real_t<T>;
  if (z.re == 0 && z.im == 0) return {R(0), z.im};
  if (isinf(z.im)) return {::fabs(z.im), z.im};
  const R half = ::sqrt((abs(z) + ::fabs(z.re)) * R(0.5));
  const R other = ::fabs(z.im) / (2 * half);
  return z.re >= 0 ? T(half, ::copysign(other, z.im)) : T(other, ::copysign(half, z.im));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T exp(T z) {
  const real_t<T> magnitude = ::exp(z.re);
  if (z.im == 0) return {magnitude, z.im};
  return {magnitude * ::cos(z.im), magnitude * ::sin(z.im)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T log(T z) {
  return {::log(abs(z)), angle(z)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T exp2(T z) {
  return exp(z * T(real_t<T>(0.693147180559945309417)));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T log2(T z) {
  using R = real_t<T>;
  return {::log2(abs(z)), angle(z) * R(1.44269504088896340736)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T log10(T z) {
  using R = real_t<T>;
  return {::log10(abs(z)), angle(z) * R(0.43429448190325182765)};
}
// e^z - 1 = (expm1(x) cos y - 2 sin^2(y/2)) + i e^x sin y
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T expm1(T z) {
  using R = real_t<T>;
  const R half = ::sin(z.im * R(0.5));
  return {::expm1(z.re) * ::cos(z.im) - 2 * half * half, ::exp(z.re) * ::sin(z.im)};
}
// Real part by log1p of |1 + z|^2 - 1 = x (2 + x) + y^2.
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T log1p(T z) {
  using R = real_t<T>;
  const R excess = z.re * (2 + z.re) + z.im * z.im;
  const bool near = excess < R(1) && excess > R(-0.75);
  return {near ? R(0.5) * ::log1p(excess) : ::log(::hypot(R(1) + z.re, z.im)),
          ::atan2(z.im, R(1) + z.re)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T pow(T base, same_t<T> exponent) {
  if (base.re == 0 && base.im == 0) {
    if (exponent.re == 0 && exponent.im == 0) return T(1);
    if (exponent.im == 0 && exponent.re > 0) return T(0);
  }
  return exp(exponent * log(base));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T rsqrt(T z) {
  return T(1) / sqrt(z);
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sigmoid(T z) {
  return T(1) / (T(1) + exp(-z));
}

// --- trigonometric and hyperbolic

template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sinh(T z) {
  return {::sinh(z.re) * ::cos(z.im), ::cosh(z.re) * ::sin(z.im)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T cosh(T z) {
  return {::cosh(z.re) * ::cos(z.im), ::sinh(z.re) * ::sin(z.im)};
}
// With t = tan y, s = sinh x: (s c (1 + t^2) + i t) / (1 + s^2 (1 + t^2)); flat far from 0.
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T tanh(T z) {
  using R = real_t<T>;
  if (::fabs(z.re) > (sizeof(R) == 4 ? R(11) : R(22))) {
    return {::copysign(R(1), z.re), 4 * ::sin(z.im) * ::cos(z.im) * ::exp(-2 * ::fabs(z.re))};
  }
  const R t = ::tan(z.im);
  const R growth = 1 + t * t;
  const R s = ::sinh(z.re);
  const R denominator = 1 + growth * s * s;
  if (isinf(t)) return {::sqrt(1 + s * s) / s, 1 / t};
  return {growth * ::sqrt(1 + s * s) * s / denominator, t / denominator};
}
// f(z) = -i g(iz) for (sin, sinh), (tan, tanh), (asin, asinh), (atan, atanh).
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T turned(T z) {
  return {-z.im, z.re};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T turned_back(T z) {
  return {z.im, -z.re};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sin(T z) {
  return turned_back(sinh(turned(z)));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T cos(T z) {
  return cosh(turned(z));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T tan(T z) {
  return turned_back(tanh(turned(z)));
}
// log(e^a + e^b) from the operand of larger real part, so that nothing overflows.
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T logaddexp(T a, same_t<T> b) {
  const T high = a.re >= b.re ? a : b, low = a.re >= b.re ? b : a;
  if (isinf(high.re) && high.re == low.re) {
    return high.re < 0 ? high : log(exp(high) + exp(low));
  }
  return high + log1p(exp(low - high));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T sinc(T z) {
  const T angle = z * T(real_t<T>(gamma_series::kPi));
  return z == T(0) ? T(1) : sin(angle) / angle;
}

template <Complex T>
FLAMBEAU_HOST_DEVICE inline T asin(T z) {
  const T below = sqrt(T(1 - z.re, -z.im));
  const T above = sqrt(T(1 + z.re, z.im));
  return {::atan2(z.re, (below * above).re), ::asinh((conj(below) * above).im)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T acos(T z) {
  const T below = sqrt(T(1 - z.re, -z.im));
  const T above = sqrt(T(1 + z.re, z.im));
  return {2 * ::atan2(below.re, above.re), ::asinh((conj(above) * below).im)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T asinh(T z) {
  return turned_back(asin(turned(z)));
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T acosh(T z) {
  const T below = sqrt(T(z.re - 1, z.im));
  const T above = sqrt(T(z.re + 1, z.im));
  return {::asinh((conj(below) * above).re), 2 * ::atan2(below.im, above.re)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T atanh(T z) {
  using R = real_t<T>;
  const R gap = 1 - z.re;
  const R real = R(0.25) * ::log1p(4 * z.re / (gap * gap + z.im * z.im));
  return {real, R(0.5) * ::atan2(2 * z.im, gap * (1 + z.re) - z.im * z.im)};
}
template <Complex T>
FLAMBEAU_HOST_DEVICE inline T atan(T z) {
  return turned_back(atanh(turned(z)));
}

}  // namespace flambeau::vec
