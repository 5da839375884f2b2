#pragma once
// The long tail: glibc's functions, whose vector forms (libmvec, at most 4 ulp) the compiler calls
// in `omp simd` loops. Declared here because <math.h> declares them without vector forms.
#include "aten/cpu/vecmath/power.h"

extern "C" {
[[gnu::simd("notinbranch"), gnu::const]] float sinf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double sin(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float cosf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double cos(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float tanf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double tan(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float asinf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double asin(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float acosf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double acos(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float atanf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double atan(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float atan2f(float, float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double atan2(double, double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float hypotf(float, float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double hypot(double, double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float sinhf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double sinh(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float coshf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double cosh(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float asinhf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double asinh(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float acoshf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double acosh(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float atanhf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double atanh(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] float erfcf(float) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double erfc(double) noexcept(true);
[[gnu::simd("notinbranch"), gnu::const]] double erf(double) noexcept(true);
}

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

[[gnu::always_inline]] inline float sin(float x) { return ::sinf(x); }
[[gnu::always_inline]] inline double sin(double x) { return ::sin(x); }
[[gnu::always_inline]] inline float cos(float x) { return ::cosf(x); }
[[gnu::always_inline]] inline double cos(double x) { return ::cos(x); }
[[gnu::always_inline]] inline float tan(float x) { return ::tanf(x); }
[[gnu::always_inline]] inline double tan(double x) { return ::tan(x); }
[[gnu::always_inline]] inline float asin(float x) { return ::asinf(x); }
[[gnu::always_inline]] inline double asin(double x) { return ::asin(x); }
[[gnu::always_inline]] inline float acos(float x) { return ::acosf(x); }
[[gnu::always_inline]] inline double acos(double x) { return ::acos(x); }
[[gnu::always_inline]] inline float atan(float x) { return ::atanf(x); }
[[gnu::always_inline]] inline double atan(double x) { return ::atan(x); }
[[gnu::always_inline]] inline float atan2(float y, float x) { return ::atan2f(y, x); }
[[gnu::always_inline]] inline double atan2(double y, double x) { return ::atan2(y, x); }
[[gnu::always_inline]] inline float hypot(float x, float y) { return ::hypotf(x, y); }
[[gnu::always_inline]] inline double hypot(double x, double y) { return ::hypot(x, y); }
[[gnu::always_inline]] inline float sinh(float x) { return ::sinhf(x); }
[[gnu::always_inline]] inline double sinh(double x) { return ::sinh(x); }
[[gnu::always_inline]] inline float cosh(float x) { return ::coshf(x); }
[[gnu::always_inline]] inline double cosh(double x) { return ::cosh(x); }
[[gnu::always_inline]] inline float asinh(float x) { return ::asinhf(x); }
[[gnu::always_inline]] inline double asinh(double x) { return ::asinh(x); }
[[gnu::always_inline]] inline float acosh(float x) { return ::acoshf(x); }
[[gnu::always_inline]] inline double acosh(double x) { return ::acosh(x); }
[[gnu::always_inline]] inline float atanh(float x) { return ::atanhf(x); }
[[gnu::always_inline]] inline double atanh(double x) { return ::atanh(x); }
// sin(pi x) / (pi x), 1 at 0.
template <Floating T>
[[gnu::always_inline]] inline T sinc(T x) {
  const T angle = x * static_cast<T>(3.14159265358979323846);
  return x == T(0) ? T(1) : sin(angle) / angle;
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
