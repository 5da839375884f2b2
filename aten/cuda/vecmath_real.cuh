#pragma once
// Transcendental functions of real numbers; part of aten/cuda/vecmath.cuh. CUDA overloads each
// global function for float and double.
#include "aten/cuda/vecmath.cuh"

namespace flambeau::vec {

template <Floating T>
FLAMBEAU_HOST_DEVICE inline T sqrt(T x) {
  return ::sqrt(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T exp(T x) {
  return ::exp(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T exp2(T x) {
  return ::exp2(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T expm1(T x) {
  return ::expm1(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T log(T x) {
  return ::log(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T log2(T x) {
  return ::log2(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T log10(T x) {
  return ::log10(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T log1p(T x) {
  return ::log1p(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T sin(T x) {
  return ::sin(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T cos(T x) {
  return ::cos(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T tan(T x) {
  return ::tan(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T asin(T x) {
  return ::asin(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T acos(T x) {
  return ::acos(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T atan(T x) {
  return ::atan(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T sinh(T x) {
  return ::sinh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T cosh(T x) {
  return ::cosh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T tanh(T x) {
  return ::tanh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T asinh(T x) {
  return ::asinh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T acosh(T x) {
  return ::acosh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T atanh(T x) {
  return ::atanh(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T erf(T x) {
  return ::erf(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T erfc(T x) {
  return ::erfc(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T atan2(T x, same_t<T> y) {
  return ::atan2(x, y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T hypot(T x, same_t<T> y) {
  return ::hypot(x, y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T pow(T x, same_t<T> y) {
  return ::pow(x, y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T normal_cdf(T x) {
  return T(0.5) * ::erfc(T(-0.70710678118654752440) * x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T erfinv(T x) {
  return ::erfinv(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T rsqrt(T x) {
  return ::rsqrt(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T lgamma(T x) {
  return ::lgamma(x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T digamma(T x) {
  return static_cast<T>(gamma_series::digamma(x));
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T polygamma(T n, same_t<T> x) {
  return static_cast<T>(gamma_series::polygamma(n, x));
}

// --- stable compositions: no intermediate overflows where the result is finite

template <Floating T>
FLAMBEAU_HOST_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + ::exp(-x));
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + ::log1p(::exp(-::fabs(x)));
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T log_sigmoid(T x) {
  return -softplus(-x);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T logaddexp(T a, same_t<T> b) {
  if (a == b && isinf(a)) return a;
  return max(a, b) + ::log1p(::exp(-::fabs(a - b)));
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T logaddexp2(T a, same_t<T> b) {
  if (a == b && isinf(a)) return a;
  return max(a, b) + ::log1p(::exp2(-::fabs(a - b))) * T(1.44269504088896340736);
}
// 0 where x is 0, unless y is NaN.
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T xlogy(T x, same_t<T> y) {
  return x == 0 && y == y ? T(0) : x * ::log(y);
}
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T xlog1py(T x, same_t<T> y) {
  return x == 0 && y == y ? T(0) : x * ::log1p(y);
}
// sin(pi x) / (pi x), 1 at 0.
template <Floating T>
FLAMBEAU_HOST_DEVICE inline T sinc(T x) {
  const T angle = x * T(gamma_series::kPi);
  return x == 0 ? T(1) : ::sin(angle) / angle;
}

}  // namespace flambeau::vec
