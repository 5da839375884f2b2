// Orthogonal polynomials of Lanes against those of numbers, which test/ops/test_special.py compares
// with SciPy: degrees that are mixed in a vector, negative, fractional and too high, arguments at
// and beyond the ends of [-1, 1], NaN and infinities. Compiled once per instruction set.
#include <cmath>
#include <limits>
#include <vector>

#include "aten/cpu/loop_support.h"
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

template <typename T, typename F, typename R>
void expect_near(const char* name, const F& lanes, const R& number) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> xs, ns;
  uint64_t seed = 11;
  for (int i = 0; i < 20003; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(seed >> 11) * 0x1p-53;
    xs.push_back(static_cast<T>(i % 3 == 0 ? 6 * unit - 3 : 2 * unit - 1));
    ns.push_back(static_cast<T>(seed % 16 < 14 ? static_cast<double>(seed % 16) : 30 * unit - 3));
  }
  for (const T x : {T(0), T(1), T(-1), T(0.5), T(2), inf, -inf, nan}) {
    for (const T n : {T(-2), T(-1), T(-0.5), T(0), T(0.9), T(1), T(3.7), T(7), T(8), T(40), nan,
                      -inf, T(3e7), inf})
      xs.push_back(x), ns.push_back(n);
  }
  std::vector<T> out(xs.size());
  loops::each_lanes(static_cast<int64_t>(xs.size()), out.data(), lanes, xs.data(), ns.data());
  int wrong = 0;
  T at = 0, degree = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double want = number(static_cast<double>(xs[i]), static_cast<double>(ns[i]));
    const double size = std::fmax(1.0, std::fabs(want));
    // Angles of cosines grow with the degree, and so do their rounding errors.
    const double steps = 400 + 4 * std::fabs(static_cast<double>(ns[i]));
    const double bound = steps * size * static_cast<double>(std::numeric_limits<T>::epsilon());
    const T narrow = static_cast<T>(want);
    const bool same = std::isnan(narrow) ? std::isnan(out[i]) : out[i] == narrow;
    if (!same && !(std::fabs(static_cast<double>(out[i]) - want) <= bound)) {
      ++wrong, at = xs[i], degree = ns[i];
    }
  }
  testing::report(wrong == 0, __FILE__, __LINE__,
                  text_of(name, ": expected the values of numbers, got ", wrong, " others, at ", at,
                          ", degree ", degree));
}

#define CHECK_POLYNOMIAL(name)                                                              \
  expect_near<float>(#name, [](auto x, auto n) { return vec::name(x, n); }, special::name); \
  expect_near<double>(#name, [](auto x, auto n) { return vec::name(x, n); }, special::name)

}  // namespace

TEST_PER_ISA(polynomial_lanes) {
  CHECK_POLYNOMIAL(chebyshev_polynomial_t);
  CHECK_POLYNOMIAL(chebyshev_polynomial_u);
  CHECK_POLYNOMIAL(chebyshev_polynomial_v);
  CHECK_POLYNOMIAL(chebyshev_polynomial_w);
  CHECK_POLYNOMIAL(hermite_polynomial_h);
  CHECK_POLYNOMIAL(hermite_polynomial_he);
  CHECK_POLYNOMIAL(laguerre_polynomial_l);
  CHECK_POLYNOMIAL(legendre_polynomial_p);
}

#endif
