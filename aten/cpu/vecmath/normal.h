#pragma once
// The scaled error function and the standard normal distribution without a branch, in double for
// both types. All follow from f(a) = e^(a^2) erfc(a) for a >= 0, a Chebyshev series
// (aten/core/special/error_functions.h), and from squares that keep their rounding error: in an
// exponential it would count x^2 times. The inverse is Wichura's algorithm AS 241 (PPND16, Applied
// Statistics 37, 1988). Relative errors: 8 eps.
#include "aten/core/special/error_functions.h"
#include "aten/cpu/vecmath/bessel.h"
#include "aten/cpu/vecmath/lanes.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

// x^2 = high + low, both exact: high is the square of the upper 21 bits of x.
struct SplitSquare {
  double high;
  double low;
};
[[gnu::always_inline]] inline SplitSquare split_square(double x) {
  const double upper = from_bits(bits_of(x) & Format<double>::kHighHalf);
  return {upper * upper, (x - upper) * (x + upper)};
}
// e^(factor x^2), factor a power of two or its negative, |x| < 64.
[[gnu::always_inline]] inline double exp_of_square(double x, double factor) {
  const SplitSquare square = split_square(x);
  const double rest = factor * square.low;  // below 2^-6
  const double power = exp(factor * square.high);
  return power * (1.0 + madd(exp_tail(rest) * rest, rest, rest));
}

// e^(a^2) erfc(a) for a >= 0.
[[gnu::always_inline]] inline double erfcx_nonnegative(double a) {
  const double series = chebyshev_sum(special::kErfcx, (a - 4.0) / (a + 4.0)) / madd(a, 2.0, 1.0);
  return a > 1e8 ? 0.56418958354775628695 / a : series;
}

[[gnu::always_inline]] inline double erfcx(double x) {
  const double size = abs(x), upper = erfcx_nonnegative(size);
  // Beyond 27 the function overflows.
  const double rise = exp_of_square(size > 27.0 ? 27.0 : size, 1.0);
  return x < 0.0 ? 2.0 * rise - upper : upper;
}

// What the distribution functions take of x: f(|x| / sqrt 2) and e^(-x^2 / 2), 0 beyond 40.
struct NormalParts {
  double scaled;
  double density;
};
[[gnu::always_inline]] inline NormalParts normal_parts(double x) {
  const double size = abs(x);
  const double bounded = size > 40.0 ? 40.0 : size;
  return {erfcx_nonnegative(size * special::kSqrtHalf), exp_of_square(bounded, -0.5)};
}

[[gnu::always_inline]] inline double ndtr(double x) {
  const NormalParts p = normal_parts(x);
  const double tail = 0.5 * p.scaled * p.density;
  return x < 0.0 ? tail : 1.0 - tail;
}

[[gnu::always_inline]] inline double log_ndtr(double x) {
  const NormalParts p = normal_parts(x);
  const double left = log(0.5 * p.scaled) - 0.5 * x * x;
  return x < 0.0 ? left : log1p(-0.5 * p.scaled * p.density);
}

// Derivative of log_ndtr: the density divided by the distribution function.
[[gnu::always_inline]] inline double normal_hazard(double x) {
  const NormalParts p = normal_parts(x);
  constexpr double kFactor = 0.79788456080286535588;  // sqrt(2 / pi)
  const double right = kFactor * p.density / (2.0 - p.density * p.scaled);
  return x < 0.0 ? kFactor / p.scaled : right;
}

// Quotients of polynomials of degree 7: of (p - 1/2)^2 in the middle, of sqrt(-log(tail)) in the
// tails, up to 5 and beyond.
struct Quotient {
  double above;
  double below;
};
[[gnu::always_inline]] inline double polynomial7(const double (&c)[8], double t) {
  double sum = c[7];
#pragma GCC unroll 8
  for (int k = 6; k >= 0; --k) sum = madd(sum, t, c[k]);
  return sum;
}
[[gnu::always_inline]] inline Quotient ndtri_middle(double t) {
  constexpr double kAbove[] = {3.3871328727963666080,    1.3314166789178437745e+2,
                               1.9715909503065514427e+3, 1.3731693765509461125e+4,
                               4.5921953931549871457e+4, 6.7265770927008700853e+4,
                               3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr double kBelow[] = {1.0,
                               4.2313330701600911252e+1,
                               6.8718700749205790830e+2,
                               5.3941960214247511077e+3,
                               2.1213794301586595867e+4,
                               3.9307895800092710610e+4,
                               2.8729085735721942674e+4,
                               5.2264952788528545610e+3};
  return {polynomial7(kAbove, t), polynomial7(kBelow, t)};
}
[[gnu::always_inline]] inline Quotient ndtri_near_tail(double t) {
  constexpr double kAbove[] = {1.42343711074968357734,    4.63033784615654529590,
                               5.76949722146069140550,    3.64784832476320460504,
                               1.27045825245236838258,    2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kBelow[] = {1.0,
                               2.05319162663775882187,
                               1.67638483018380384940,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
  return {polynomial7(kAbove, t), polynomial7(kBelow, t)};
}
[[gnu::always_inline]] inline Quotient ndtri_far_tail(double t) {
  constexpr double kAbove[] = {6.65790464350110377720,    5.46378491116411436990,
                               1.78482653991729133580,    2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double kBelow[] = {1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
  return {polynomial7(kAbove, t), polynomial7(kBelow, t)};
}

// Inverse of ndtr.
[[gnu::always_inline]] inline double ndtri(double p) {
  const double offset = p - 0.5, tail = p < 0.5 ? p : 1.0 - p;
  const bool is_middle = abs(offset) <= 0.425;
  const Quotient middle = ndtri_middle(0.180625 - offset * offset);
  const double root = sqrt(-log(tail));
  const Quotient near = ndtri_near_tail(root - 1.6), far = ndtri_far_tail(root - 5.0);
  const double tail_above = root <= 5.0 ? near.above : far.above;
  const double tail_below = root <= 5.0 ? near.below : far.below;
  const double factor = is_middle ? offset : copysign(1.0, offset);
  const double value =
      factor * ((is_middle ? middle.above : tail_above) / (is_middle ? middle.below : tail_below));
  const double infinity = copysign(static_cast<double>(__builtin_inf()), offset);
  const double ends = tail == 0.0 ? infinity : static_cast<double>(__builtin_nan(""));
  return tail > 0.0 ? value : ends;
}

[[gnu::always_inline]] inline float erfcx(float x) {
  return static_cast<float>(erfcx(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float ndtr(float x) {
  return static_cast<float>(ndtr(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float log_ndtr(float x) {
  return static_cast<float>(log_ndtr(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float normal_hazard(float x) {
  return static_cast<float>(normal_hazard(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float ndtri(float p) {
  return static_cast<float>(ndtri(static_cast<double>(p)));
}

#ifdef FLAMBEAU_HAS_LANES

// Integers have no other values: vectors without a number between 0 and 1 take no polynomials.
template <typename T, typename V>
[[gnu::always_inline]] inline V ndtri_of_lanes(V p) {
  constexpr int64_t kCount = sizeof(V) / sizeof(T);
  const V zero = V{}, one = zero + T(1), nan = zero + static_cast<T>(__builtin_nan(""));
  const V infinity = zero + static_cast<T>(__builtin_inf());
  if (!any_at_least((p > zero) & (p < one) ? one : zero, one))
    return p == one ? infinity : p == zero ? -infinity : nan;
  alignas(sizeof(V)) T in[kCount], out[kCount];
  __builtin_memcpy(in, &p, sizeof p);
#pragma omp simd
  for (int64_t i = 0; i < kCount; ++i) out[i] = ndtri(in[i]);
  V result;
  __builtin_memcpy(&result, out, sizeof result);
  return result;
}
[[gnu::always_inline]] inline Lanes ndtri(Lanes p) { return ndtri_of_lanes<float>(p); }
[[gnu::always_inline]] inline DoubleLanes ndtri(DoubleLanes p) { return ndtri_of_lanes<double>(p); }

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
