// Error bounds of vecmath in ulps against long double (64-bit mantissa), over the sample intervals
// and a sweep of all magnitudes, and the special values. Compiled once per instruction set;
// arguments run through `omp simd` loops, so the vector forms are what is measured.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "aten/cpu/vecmath.h"
#include "c10/core/isa.h"
#include "harness.h"

#ifndef FLAMBEAU_ISA
#define FLAMBEAU_ISA x86_64
#endif
#define JOIN_NAME(a, b) a##_##b
#define EXPAND_NAME(a, b) JOIN_NAME(a, b)
#define TEST_PER_ISA(name) EXPAND_TEST(EXPAND_NAME(name, FLAMBEAU_ISA))
#define EXPAND_TEST(name) TEST(name)

using namespace flambeau;

namespace {

// Distance from the exact value in units of the last place of T there.
template <typename T>
double ulps(T got, long double exact) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(got) || std::isnan(nearest))
    return std::isnan(got) == std::isnan(nearest) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(nearest)) return got == nearest ? 0 : 1e30;
  const T magnitude = std::fabs(nearest);
  const T step = std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude;
  const long double unit = std::isfinite(step)
                               ? step
                               : std::numeric_limits<T>::max() * std::numeric_limits<T>::epsilon();
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

template <typename T>
std::vector<T> spread(T low, T high) {
  std::vector<T> xs;
  uint64_t seed = 1;
  for (int i = 0; i < 20000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const T unit = static_cast<T>(static_cast<double>(seed >> 11) * 0x1p-53);
    xs.push_back(low + (high - low) * unit);
  }
  // Every binade between, so that tiny arguments are met.
  for (T x = std::numeric_limits<T>::denorm_min(); x < std::numeric_limits<T>::max() / 2;
       x *= T(1.37) + x * 0) {
    if (x >= low && x <= high) xs.push_back(x);
    if (-x >= low && -x <= high) xs.push_back(-x);
    if (x < std::numeric_limits<T>::min()) x *= 2;
  }
  return xs;
}

template <typename T, typename F, typename R>
void expect_ulps(const char* name, double bound, T low, T high, const F& function, const R& exact) {
  const std::vector<T> xs = spread(low, high);
  std::vector<T> ys(xs.size());
  const T* in = xs.data();
  T* out = ys.data();
#pragma omp simd
  for (size_t i = 0; i < xs.size(); ++i) out[i] = function(in[i]);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double error = ulps(ys[i], exact(static_cast<long double>(xs[i])));
    if (error > worst) worst = error, at = xs[i];
  }
  testing::report(worst <= bound, __FILE__, __LINE__,
                  text_of(name, sizeof(T) == 4 ? " float" : " double", ": expected at most ", bound,
                          " ulp, got ", worst, " at ", at));
  if (std::getenv("SHOW_ULPS"))
    std::printf("%-12s %s %8.2f at %g\n", name, sizeof(T) == 4 ? "float " : "double", worst,
                double(at));
}

using Real = long double;
Real sigmoid_exact(Real x) { return 1 / (1 + expl(-x)); }
Real softplus_exact(Real x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
// Newton on erf in long double from the double result.
Real erfinv_exact(Real x) {
  Real y = vec::erfinv(static_cast<double>(x));
  for (int i = 0; i < 3; ++i) y -= (erfl(y) - x) * 0.886226925452758013649L * expl(y * y);
  return y;
}

Real ndtr_exact(Real x) { return erfcl(-x * 0.707106781186547524400844L) / 2; }
Real erfcx_exact(Real x) { return expl(x * x) * erfcl(x); }
Real hazard_exact(Real x) { return expl(-x * x / 2) * 0.398942280401432677939946L / ndtr_exact(x); }
// Newton on the smaller tail in long double from the double result.
Real ndtri_exact(Real p) {
  const Real tail = p < 0.5L ? p : 1 - p;
  Real x = p < 0.5L ? vec::ndtri(static_cast<double>(p)) : -vec::ndtri(static_cast<double>(p));
  for (int i = 0; i < 3; ++i)
    x -= (ndtr_exact(x) - tail) * 2.506628274631000502415765L * expl(x * x / 2);
  return p < 0.5L ? x : -x;
}

// name, ulp bounds for float and double, domain.
#define CHECK_BOTH(name, float_bound, double_bound, low, high, exact)                             \
  expect_ulps<float>(#name, float_bound, low, high, [](float x) { return vec::name(x); }, exact); \
  expect_ulps<double>(#name, double_bound, low, high, [](double x) { return vec::name(x); }, exact)

}  // namespace

TEST_PER_ISA(vecmath_exponentials) {
  expect_ulps<float>("exp", 1.5, -104, 88.7f, [](float x) { return vec::exp(x); }, expl);
  expect_ulps<double>("exp", 1.5, -745, 709.7, [](double x) { return vec::exp(x); }, expl);
  expect_ulps<float>(
      "exp_nonpositive", 1.5, -104, 0, [](float x) { return vec::exp_nonpositive(x); }, expl);
  expect_ulps<double>(
      "exp_nonpositive", 1.5, -745, 0, [](double x) { return vec::exp_nonpositive(x); }, expl);
  expect_ulps<float>("exp2", 1.5, -149, 127.9f, [](float x) { return vec::exp2(x); }, exp2l);
  expect_ulps<double>("exp2", 1.5, -1074, 1023.9, [](double x) { return vec::exp2(x); }, exp2l);
  CHECK_BOTH(expm1, 2, 2, -30, 88, expm1l);
  CHECK_BOTH(sigmoid, 2.5, 2.5, -80, 80, sigmoid_exact);
  CHECK_BOTH(tanh, 3, 3, -25, 25, tanhl);
  CHECK_BOTH(softplus, 2.5, 2.5, -80, 80, softplus_exact);
}

TEST_PER_ISA(vecmath_logarithms) {
  CHECK_BOTH(log, 1.5, 1.5, 0, 1e30, logl);
  CHECK_BOTH(log, 1.5, 1.5, 0.5, 2, logl);
  CHECK_BOTH(log2, 1.5, 1.5, 0, 1e30, log2l);
  CHECK_BOTH(log2, 1.5, 1.5, 0.5, 2, log2l);
  CHECK_BOTH(log10, 1.5, 1.5, 0, 1e30, log10l);
  CHECK_BOTH(log10, 1.5, 1.5, 0.5, 2, log10l);
  CHECK_BOTH(log1p, 2, 2, -0.99, 3, log1pl);
  CHECK_BOTH(log1p, 2, 2, 0, 1e30, log1pl);
  CHECK_BOTH(rsqrt, 1.5, 1.5, 1e-30, 1e30, [](Real x) { return 1 / sqrtl(x); });
  for (int k = -100; k < 100; ++k) EXPECT(vec::log2(std::ldexp(1.0f, k)) == static_cast<float>(k));
}

TEST_PER_ISA(vecmath_trigonometry) {
  CHECK_BOTH(sin, 4, 4, -100, 100, sinl);
  CHECK_BOTH(cos, 4, 4, -100, 100, cosl);
  CHECK_BOTH(sin, 4, 4, -1e10, 1e10, sinl);
  CHECK_BOTH(cos, 4, 4, -1e10, 1e10, cosl);
  CHECK_BOTH(tan, 4, 4, -100, 100, tanl);
  CHECK_BOTH(asin, 4, 4, -1, 1, asinl);
  CHECK_BOTH(acos, 4, 4, -1, 1, acosl);
  CHECK_BOTH(atan, 4, 4, -1e10, 1e10, atanl);
  CHECK_BOTH(sinh, 4, 4, -80, 80, sinhl);
  CHECK_BOTH(cosh, 4, 4, -80, 80, coshl);
  CHECK_BOTH(asinh, 4, 4, -1e10, 1e10, asinhl);
  CHECK_BOTH(acosh, 4, 4, 1, 1e10, acoshl);
  CHECK_BOTH(atanh, 4, 4, -1, 1, atanhl);
}

TEST_PER_ISA(vecmath_special_functions) {
  CHECK_BOTH(erf, 3, 4, -10, 10, erfl);
  CHECK_BOTH(erfc, 4, 4, -5, 9, erfcl);
  expect_ulps<float>(
      "erfinv", 4, -0.99999f, 0.99999f, [](float x) { return vec::erfinv(x); }, erfinv_exact);
  expect_ulps<double>(
      "erfinv", 4, -0.99999, 0.99999, [](double x) { return vec::erfinv(x); }, erfinv_exact);
  CHECK_BOTH(lgamma, 1, 8, 0.1, 50, lgammal);
  CHECK_BOTH(lgamma, 1, 8, 0, 1e30, lgammal);
  CHECK_BOTH(lgamma, 1, 8, 0.9999, 1.0001, lgammal);
  CHECK_BOTH(lgamma, 1, 8, 1.9999, 2.0001, lgammal);
  CHECK_BOTH(lgamma, 1, 8, -1, 0, lgammal);
  for (double x = -20.001; x < 0; x += 0.0037)  // has zeros
    EXPECT(std::fabs(vec::lgamma(x) - lgammal(x)) <= 1e-14 * std::fmax(1, -x));
  expect_ulps<double>(
      "normal_cdf", 8, -2, 10, [](double x) { return vec::normal_cdf(x); },
      [](Real x) { return erfcl(-x * 0.707106781186547524401L) / 2; });
  for (float x = -10; x < 10; x += 0.0037f)
    EXPECT(std::fabs(vec::normal_cdf(x) - std::erfc(x * -0.70710678118654752) / 2) <= 6e-8);
  EXPECT(std::fabs(vec::digamma(1.0) + 0.57721566490153286061) < 1e-15);
  EXPECT(std::fabs(vec::digamma(-0.5) - 0.03648997397857652056) < 1e-14);
  EXPECT(std::fabs(vec::digamma(25.0) - 3.19874251285197400853) < 1e-14);
  EXPECT(std::isnan(vec::digamma(-2.0)) && vec::digamma(0.0) == -INFINITY &&
         vec::digamma(-0.0f) == INFINITY && std::isinf(vec::digamma(5e-324)));
  EXPECT(std::isinf(vec::digamma(INFINITY)) && std::isnan(vec::digamma(-INFINITY)) &&
         std::isnan(vec::digamma(static_cast<double>(NAN))));
  for (double x = -20.001; x < 60; x += 0.0037) {  // by the difference of neighbours
    const double size = std::fmax(1, std::fabs(vec::digamma(x)));
    EXPECT(std::fabs(vec::digamma(x + 1) - vec::digamma(x) - 1 / x) <= 4e-15 * size * size);
  }
  EXPECT(vec::modified_bessel_i0(0.0) == 1 && vec::modified_bessel_i1(0.0f) == 0 &&
         vec::modified_bessel_i0(-INFINITY) == INFINITY &&
         vec::modified_bessel_i1(-INFINITY) == -INFINITY &&
         std::isnan(vec::modified_bessel_i0(static_cast<float>(NAN))));
  EXPECT(std::fabs(vec::modified_bessel_i0(1.0) - 1.26606587775200833560) < 1e-15 &&
         std::fabs(vec::modified_bessel_i1(9.0) - 1030.91472251695644443) < 2e-12);
  EXPECT(std::fabs(vec::polygamma(1.0, 1.0) - 1.64493406684822643647) < 1e-14);
  EXPECT(std::fabs(vec::polygamma(2.0, 0.5) + 16.8287966442343199956) < 1e-12);
  EXPECT(std::fabs(vec::polygamma(1.0, -0.5) - 8.93480220054467930942) < 1e-12);
}

TEST_PER_ISA(vecmath_normal_distribution) {
  CHECK_BOTH(erfcx, 1, 8, -9, 20, erfcx_exact);
  CHECK_BOTH(ndtr, 1, 8, -13, 9, ndtr_exact);
  CHECK_BOTH(log_ndtr, 1, 8, -20, 8,
             [](Real x) { return x < 0 ? logl(ndtr_exact(x)) : log1pl(-ndtr_exact(-x)); });
  CHECK_BOTH(normal_hazard, 1, 8, -13, 13, hazard_exact);
  CHECK_BOTH(ndtri, 1, 8, 1e-30, 0.49, ndtri_exact);
  CHECK_BOTH(ndtri, 1, 8, 0.51, 0.999, ndtri_exact);
  const double inf = INFINITY, nan = NAN;
  EXPECT(vec::ndtri(0.0) == -inf && vec::ndtri(1.0) == inf && vec::ndtri(0.5) == 0 &&
         std::isnan(vec::ndtri(-0.1)) && std::isnan(vec::ndtri(1.1)) &&
         std::isnan(vec::ndtri(nan)));
  EXPECT(std::fabs(vec::ndtri(5e-324) + 38.467405617144344) < 1e-13);
  EXPECT(vec::ndtr(inf) == 1 && vec::ndtr(-inf) == 0 && vec::ndtr(0.0) == 0.5 &&
         std::isnan(vec::ndtr(nan)));
  EXPECT(vec::log_ndtr(-inf) == -inf && vec::log_ndtr(inf) == 0 && std::isnan(vec::log_ndtr(nan)) &&
         vec::log_ndtr(-1e200) == -inf);
  EXPECT(vec::erfcx(inf) == 0 && vec::erfcx(-inf) == inf && vec::erfcx(-27.0) == inf &&
         vec::erfcx(0.0) == 1 && std::isnan(vec::erfcx(nan)) && vec::erfcx(1e300) > 0);
  EXPECT(vec::normal_hazard(inf) == 0 && std::isnan(vec::normal_hazard(nan)));
}

TEST_PER_ISA(vecmath_trigamma) {
  EXPECT(std::fabs(vec::trigamma(1.0) - 1.64493406684822643647) < 1e-15);
  EXPECT(std::fabs(vec::trigamma(-0.5) - 8.93480220054467930942) < 1e-14);
  EXPECT(std::fabs(vec::trigamma(25.0) - 0.0408106632572255792) < 1e-16);
  const double inf = INFINITY, nan = NAN;
  EXPECT(vec::trigamma(0.0) == inf && vec::trigamma(-0.0) == inf && vec::trigamma(-3.0) == inf &&
         vec::trigamma(inf) == 0 && std::isnan(vec::trigamma(-inf)) &&
         std::isnan(vec::trigamma(nan)) && vec::trigamma(1e-300) == inf);
  for (double x = -20.001; x < 60; x += 0.0037) {  // by the difference of neighbours
    const double size = vec::trigamma(x) + vec::trigamma(x + 1);
    EXPECT(std::fabs(vec::trigamma(x) - vec::trigamma(x + 1) - 1 / x / x) <=
           4e-15 * size * size + 4e-16 * size);
  }
}

TEST_PER_ISA(vecmath_powers) {
  double worst_float = 0, worst_double = 0;
  const std::vector<double> bases = spread(1e-3, 1e3), exponents = spread(-30.0, 30.0);
  for (size_t i = 0; i < 20000; ++i) {
    const float x = static_cast<float>(bases[i]), y = static_cast<float>(exponents[i] / 4);
    worst_float = std::fmax(worst_float, ulps(vec::pow(x, y), powl(x, y)));
    worst_double = std::fmax(worst_double,
                             ulps(vec::pow(bases[i], exponents[i]), powl(bases[i], exponents[i])));
  }
  // Bases beside 1 with exponents that lead to the ends of the range, and bases that are denormal.
  for (int i = 1; i < 4000; ++i) {
    const float x = 1.0f + static_cast<float>(i % 2 ? i : -i) * 0x1p-23f;
    const float y = static_cast<float>(80.0 * std::sin(i) / std::log(static_cast<double>(x)));
    worst_float = std::fmax(worst_float, ulps(vec::pow(x, y), powl(x, y)));
    const float tiny = static_cast<float>(i) * 0x1p-149f,
                root = static_cast<float>(std::cos(i)) / 2;
    worst_float = std::fmax(worst_float, ulps(vec::pow(tiny, root), powl(tiny, root)));
  }
#ifdef __FMA__
  EXPECT(worst_float <= 0.51);
#endif
  EXPECT(worst_float <= 4 && worst_double <= 4);
  const float over = 0x1.fffffep127f;  // the largest, and squares around the least denormal
  EXPECT(vec::pow(over, 1.0f) == over && std::isinf(vec::pow(over, 1.01f)) &&
         vec::pow(0x1p-74f, 2.0f) == 0x1p-148f && vec::pow(0x1p-76f, 2.0f) == 0.0f);
  const double inf = std::numeric_limits<double>::infinity();
  const double ends[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, inf, -inf, std::nan("")};
  const auto same = [](double got, double want) {
    return (std::isnan(got) && std::isnan(want)) ||
           (std::fabs(got - want) < 1e-6 * std::fabs(want) || got == want);
  };
  for (const double x : ends) {
    for (const double y : ends) {
      const double want = std::pow(x, y);
      EXPECT(same(vec::pow(x, y), want) &&
             same(vec::pow(static_cast<float>(x), static_cast<float>(y)), want));
      EXPECT(std::isnan(want) || std::signbit(vec::pow(x, y)) == std::signbit(want));
    }
  }
}

TEST_PER_ISA(vecmath_special_values) {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const double dinf = inf, dnan = nan;
  EXPECT(vec::exp(inf) == inf && vec::exp(-inf) == 0 && std::isnan(vec::exp(nan)) &&
         vec::exp(200.0f) == inf);
  EXPECT(vec::exp(dinf) == dinf && vec::exp(-dinf) == 0 && std::isnan(vec::exp(dnan)) &&
         vec::exp(0.0) == 1);
  EXPECT(vec::expm1(inf) == inf && vec::expm1(-inf) == -1 && std::isnan(vec::expm1(nan)));
  EXPECT(std::signbit(vec::expm1(-0.0f)) && std::signbit(vec::log1p(-0.0f)) &&
         std::signbit(vec::tanh(-0.0f)));
  EXPECT(vec::log(0.0f) == -inf && std::isnan(vec::log(-1.0f)) && vec::log(inf) == inf &&
         std::isnan(vec::log(nan)));
  EXPECT(vec::log(0.0) == -dinf && std::isnan(vec::log(-dinf)) && vec::log10(1000.0) == 3 &&
         vec::log2(8.0) == 3);
  EXPECT(vec::log1p(-1.0f) == -inf && std::isnan(vec::log1p(-2.0f)) && vec::log1p(inf) == inf);
  EXPECT(vec::tanh(inf) == 1 && vec::tanh(-inf) == -1 && std::isnan(vec::tanh(nan)));
  EXPECT(vec::sigmoid(-inf) == 0 && vec::sigmoid(inf) == 1 && std::isnan(vec::sigmoid(nan)));
  EXPECT(vec::softplus(inf) == inf && vec::softplus(-inf) == 0 && std::isnan(vec::softplus(nan)));
  EXPECT(vec::erf(inf) == 1 && vec::erf(-inf) == -1 && std::isnan(vec::erf(nan)) &&
         std::signbit(vec::erf(-0.0f)));
  EXPECT(vec::normal_cdf(inf) == 1 && vec::normal_cdf(-inf) == 0 && vec::normal_cdf(0.0f) == 0.5f &&
         std::isnan(vec::normal_cdf(nan)));
  EXPECT(vec::exp_nonpositive(-inf) == 0 && vec::exp_nonpositive(-dinf) == 0 &&
         std::isnan(vec::exp_nonpositive(nan)) && vec::exp_nonpositive(0.0f) == 1);
  EXPECT(vec::erfinv(1.0f) == inf && vec::erfinv(-1.0) == -dinf && std::isnan(vec::erfinv(1.5)) &&
         std::isnan(vec::erfinv(nan)));
  EXPECT(vec::lgamma(inf) == inf && vec::lgamma(-dinf) == dinf && std::isnan(vec::lgamma(nan)) &&
         vec::lgamma(0.0) == dinf && vec::lgamma(-0.0f) == inf && vec::lgamma(-7.0) == dinf &&
         vec::lgamma(1.0) == 0 && vec::lgamma(2.0f) == 0 && vec::lgamma(1e306) == dinf);
  EXPECT(vec::logaddexp(inf, inf) == inf && vec::logaddexp(-inf, -inf) == -inf &&
         vec::logaddexp(-inf, 2.0f) == 2);
  EXPECT(std::isnan(vec::logaddexp(nan, 1.0f)) && std::isnan(vec::logaddexp(1.0f, nan)));
  EXPECT(std::isnan(vec::max(nan, 1.0f)) && std::isnan(vec::max(1.0f, nan)) &&
         std::isnan(vec::min(1.0f, nan)));
  EXPECT(vec::fmax(nan, 1.0f) == 1 && vec::fmax(1.0f, nan) == 1 && vec::fmin(nan, 1.0f) == 1);
  EXPECT(vec::round(2.5f) == 2 && vec::round(3.5f) == 4 && vec::round(-0.5) == 0);
  EXPECT(vec::xlogy(0.0, 0.0) == 0 && std::isnan(vec::xlogy(0.0, dnan)));
}

TEST_PER_ISA(vecmath_division_and_bits) {
  for (const float a : {7.5f, -7.5f, 0.0f, -0.0f, 1e30f, -3.0f}) {
    for (const float b : {2.0f, -2.0f, 0.3f, -1e-3f, 3.0f})
      EXPECT(vec::fmod(a, b) == std::fmod(a, b));
  }
  EXPECT(vec::remainder(-7.0f, 3.0f) == 2 && vec::remainder(7.0, -3.0) == -2);
  EXPECT(vec::floor_divide(-7.0f, 2.0f) == -4 && vec::floor_divide(1.0, 0.1) == 9);
  EXPECT(vec::floor_divide<int32_t>(-7, 2) == -4 && vec::floor_divide<int32_t>(7, -2) == -4);
  EXPECT(vec::remainder<int8_t>(-7, 3) == 2 && vec::fmod<int64_t>(-7, 3) == -1);
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT(vec::floor_divide<int64_t>(least, -1) == least && vec::remainder<int64_t>(least, -1) == 0);
  EXPECT(vec::floor_divide<int32_t>(5, 0) == 0 && vec::zero_divisor<int32_t>(0) == 1);
  EXPECT(vec::pow<int64_t>(3, 13) == 1594323 && vec::pow<int64_t>(2, -1) == 0 &&
         vec::pow<int32_t>(-1, -3) == -1);
  EXPECT(vec::left_shift<int8_t>(1, 9) == 0 && vec::right_shift<int32_t>(-8, 40) == -1);
  EXPECT(vec::left_shift<uint8_t>(3, 7) == 128 && vec::right_shift<uint8_t>(200, 9) == 0);
  EXPECT(vec::right_shift<int32_t>(-8, 1) == -4 && vec::right_shift<uint8_t>(200, 3) == 25);
  EXPECT(vec::gcd<int32_t>(-12, 18) == 6 && vec::lcm<int32_t>(4, 6) == 12 &&
         vec::gcd<int64_t>(0, 0) == 0);
}

namespace {

// The four divisions of all pairs in vectors, against integers of 64 bits.
template <typename T>
void expect_divisions(const std::vector<T>& as, const std::vector<T>& bs) {
  const size_t n = bs.size();
  std::vector<T> whole(n), rest(n), floors(n), modulo(n);
  const T* b = bs.data();
  T *w = whole.data(), *r = rest.data(), *f = floors.data(), *m = modulo.data();
  bool right = true;
  for (const T a : as) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) {
      w[i] = vec::trunc_divide(a, b[i]);
      r[i] = vec::fmod(a, b[i]);
      f[i] = vec::floor_divide(a, b[i]);
      m[i] = vec::remainder(a, b[i]);
    }
    for (size_t i = 0; i < n; ++i) {
      const int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b[i]);
      const int64_t q = y == 0 ? 0 : x / y, left = y == 0 ? 0 : x % y;
      const bool lower = left != 0 && (left < 0) != (y < 0);
      right = right && w[i] == static_cast<T>(q) && r[i] == static_cast<T>(left) &&
              f[i] == static_cast<T>(q - lower) && m[i] == static_cast<T>(lower ? left + y : left);
    }
  }
  EXPECT(right);
}

// Both ends, the numbers around 0 and the powers of two, and random ones of every size.
template <typename T>
std::vector<T> divisors() {
  std::vector<T> all = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  uint64_t seed = 7;
  for (int i = 0; i < 40; ++i) all.push_back(static_cast<T>(i - 20));
  for (int i = 0; i < 1500; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    all.push_back(static_cast<T>(static_cast<int64_t>(seed) >> (seed >> 32) % 64));
    all.push_back(static_cast<T>((uint64_t{1} << i % 64) + static_cast<uint64_t>(i % 3) - 1));
  }
  return all;
}

template <typename T, typename Bits>
void expect_neighbours() {
  const T inf = std::numeric_limits<T>::infinity(), least = std::numeric_limits<T>::denorm_min();
  std::vector<T> xs = {0,
                       T(-0.0),
                       1,
                       -1,
                       inf,
                       -inf,
                       least,
                       -least,
                       std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::lowest(),
                       std::numeric_limits<T>::quiet_NaN()};
  uint64_t seed = 3;
  for (int i = 0; i < 500; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    xs.push_back(__builtin_bit_cast(T, static_cast<Bits>(seed >> (64 - 8 * sizeof(T)))));
  }
  std::vector<T> got(xs.size());
  for (const T y : xs) {
    const T* in = xs.data();
    T* out = got.data();
#pragma omp simd
    for (size_t i = 0; i < xs.size(); ++i) out[i] = vec::nextafter(in[i], y);
    for (size_t i = 0; i < xs.size(); ++i) {
      const T want = std::nextafter(xs[i], y);
      EXPECT(std::isnan(want) ? std::isnan(got[i])
                              : __builtin_bit_cast(Bits, got[i]) == __builtin_bit_cast(Bits, want));
    }
  }
}

}  // namespace

TEST_PER_ISA(vecmath_integer_divisions) {
  std::vector<int8_t> bytes;
  std::vector<uint8_t> unsigned_bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<int8_t>(i));
    unsigned_bytes.push_back(static_cast<uint8_t>(i));
  }
  expect_divisions(bytes, bytes);
  expect_divisions(unsigned_bytes, unsigned_bytes);
  expect_divisions(divisors<int16_t>(), divisors<int16_t>());
  expect_divisions(divisors<uint16_t>(), divisors<uint16_t>());
  expect_divisions(divisors<int32_t>(), divisors<int32_t>());
  expect_divisions(divisors<uint32_t>(), divisors<uint32_t>());
  // Quotients just below integers.
  std::vector<int32_t> below;
  const int32_t most = std::numeric_limits<int32_t>::max();
  for (int32_t b = 1; b < 3000; ++b) below.push_back(most / b * b - 1);
  expect_divisions(below, divisors<int32_t>());
}

TEST_PER_ISA(vecmath_nextafter) {
  expect_neighbours<float, uint32_t>();
  expect_neighbours<double, uint64_t>();
}

TEST_PER_ISA(vecmath_complex) {
  using C = c10::complex<double>;
  const auto near = [](C a, C b) {
    return std::hypot(a.re - b.re, a.im - b.im) < 1e-14 * (1 + std::hypot(b.re, b.im));
  };
  const C z(0.3, -1.7);
  EXPECT(near(vec::exp(vec::log(z)), z) && near(vec::sqrt(z) * vec::sqrt(z), z));
  EXPECT(near(vec::expm1(z), vec::exp(z) - C(1)) && near(vec::log1p(z), vec::log(C(1) + z)));
  EXPECT(near(vec::pow(z, C(2)), z * z) && near(vec::sigmoid(z), C(1) / (C(1) + vec::exp(-z))));
  EXPECT(near(vec::tan(z), vec::sin(z) / vec::cos(z)) &&
         near(vec::tanh(z), vec::sinh(z) / vec::cosh(z)));
  EXPECT(vec::abs(C(3, 4)) == 5 && vec::sign(C(0)) == C(0) && vec::pow(C(0), C(0)) == C(1));
  EXPECT(near(vec::log1p(C(1e-17, 1e-17)), C(1e-17, 1e-17)));
}
