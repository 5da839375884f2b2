// Incomplete gamma functions of Lanes against those of numbers, which test/ops/test_special.py
// compares with mpmath: series and fractions mixed in one vector, both sides of their borders, the
// neighbourhood of x = a for large a, zeros, infinities, NaN. Compiled once per instruction set.
#include <cmath>
#include <limits>
#include <vector>

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/incomplete_gamma_lanes.h"
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

#ifdef FLAMBEAU_HAS_LANES

namespace {

template <typename T>
struct Arguments {
  std::vector<T> a;
  std::vector<T> x;
};

template <typename T>
Arguments<T> arguments() {
  Arguments<T> all;
  uint64_t seed = 23;
  const auto unit = [&] {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(seed >> 11) * 0x1p-53;
  };
  for (int i = 0; i < 6003; ++i) {
    const double a = std::exp(12 * unit() - 6), spread = 1 + (unit() - 0.5) / std::sqrt(1 + a);
    all.a.push_back(static_cast<T>(a));
    all.x.push_back(static_cast<T>(i % 2 ? a * spread : 30 * unit() * unit()));
  }
  for (const double a : {0.2, 1.0, 1.5, 10.0, 0.1}) {  // the borders of the formulas
    for (const double x : {1.0, 1.1, a, a + 1, 1.3 * a, 0.7 * a}) {
      for (const double by : {-1e-6, 0.0, 1e-6})
        all.a.push_back(static_cast<T>(a)), all.x.push_back(static_cast<T>(x + by));
    }
  }
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const T a : {T(0), T(-0.0), T(1), T(-1), T(0.5), T(30), T(1e-30), inf, -inf, nan}) {
    for (const T x : {T(0), T(-0.0), T(1), T(-1), T(5), T(1e-30), T(1e30), inf, -inf, nan})
      all.a.push_back(a), all.x.push_back(x);
  }
  return all;
}

template <typename T, typename F, typename R>
void expect_near(const char* name, const F& lanes, const R& number) {
  const Arguments<T> in = arguments<T>();
  std::vector<T> out(in.a.size());
  loops::each_lanes(static_cast<int64_t>(out.size()), out.data(), lanes, in.a.data(), in.x.data());
  const double bound = sizeof(T) == 4 ? 6.1e-8 : 2e-13;
  int wrong = 0;
  T at = 0, to = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double want = number(static_cast<double>(in.a[i]), static_cast<double>(in.x[i]));
    const double got = static_cast<double>(out[i]);
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    // In the tails both sides lose as many digits as their exponents have, and numbers also those
    // by which x / a is below 1.
    const double a = static_cast<double>(in.a[i]), x = static_cast<double>(in.x[i]);
    const double lost = x > 0 && a > 10 && a < 1e9 ? a * a / x / 500 : 0;
    const double digits = want > 0 ? 1 + std::fabs(std::log(want)) / 20 + lost : 1;
    const double allowed = (sizeof(T) == 4 ? bound : bound * digits) * std::fabs(want);
    const bool near = std::fabs(got - want) <= std::fmax(allowed, least);
    if (!(std::isnan(want) ? std::isnan(got) : near)) ++wrong, at = in.a[i], to = in.x[i];
  }
  testing::report(
      wrong == 0, __FILE__, __LINE__,
      text_of(name, ": expected the values of numbers, got ", wrong, " others, at ", at, ", ", to));
}

const auto lower = [](auto a, auto x) { return vec::igamma(a, x); };
const auto upper = [](auto a, auto x) { return vec::igammac(a, x); };

}  // namespace

TEST_PER_ISA(incomplete_gamma_lanes) {
  expect_near<double>("igamma", lower, special_functions::igamma);
  expect_near<double>("igammac", upper, special_functions::igammac);
  expect_near<float>("igamma", lower, special_functions::igamma);
  expect_near<float>("igammac", upper, special_functions::igammac);
}

#endif
