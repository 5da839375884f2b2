// How gamma and Dirichlet samples move with their concentrations, on CPU. Most elements take series
// or an expansion, in vectors (loops/pathwise_loops.cpp). Where those would cancel or take long,
// the integrals: they vanish over all t, so the tail in which the factor has one sign is
// integrated, after the substitutions t = e^y and t = 1 / (1 + e^-y), which make the integrand
// log-concave.
// Formula:
//   for a sample x of distribution function F and density p, dx/da = -(dF/da) / p(x), and
//   gamma:      dF/da = int_0^x (ln t - digamma(a)) p(t) dt
//   beta(a, b): dF/da = int_0^x (ln t - digamma(a) + digamma(a + b)) p(t) dt
// Accumulates in: double.
// NaN, infinity: NaN gives NaN.
// Error: relative (tested) below 1e-10 for concentrations 1e-8 .. 1e8 and samples that these give,
// below 1e-5 for dtypes smaller than double.
// Source: Figurnov, Mohamed & Mnih 2018, "Implicit Reparameterization Gradients"; Jankowiak &
// Obermeyer 2018, "Pathwise Derivatives Beyond the Reparameterization Trick"; of digamma's
// expansion: DLMF 5.11.2; of the gamma distribution's: DLMF 8.12.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/random/pathwise_loops.h"
#include "aten/ops/random/tail_integral.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(pathwise::Loops, pathwise)

namespace ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// e^-37 vanishes beside 1.
constexpr double kVanishing = 37;

// From here on digamma's expansion has 16 digits.
constexpr double kExpandFrom = 12;

// digamma(x) - ln x + 1 / (2 x), x >= kExpandFrom.
double digamma_rest(double x) {
  static constexpr double kTerms[] = {-1.0 / 12,  1.0 / 120,     -1.0 / 252, 1.0 / 240,
                                      -1.0 / 132, 691.0 / 32760, -1.0 / 12};
  const double z = 1 / (x * x);
  double sum = 0;
  for (int i = 6; i >= 0; --i) sum = (sum + kTerms[i]) * z;
  return sum;
}

// digamma(a) - ln x, exact near a = x.
double digamma_less_log(double a, double x) {
  double shifts = 0;
  while (a < kExpandFrom) {
    shifts -= 1 / a;
    a += 1;
  }
  const double ratio = (x - a) / a;
  const double log_ratio = std::fabs(ratio) < 0.5 ? std::log1p(ratio) : std::log(x) - std::log(a);
  return shifts + digamma_rest(a) - 0.5 / a - log_ratio;
}

// digamma(a) - digamma(a + b) < 0, of terms of one sign.
double digamma_step(double a, double b) {
  double sum = 0;
  while (a < kExpandFrom) {
    sum -= b / (a * (a + b));
    a += 1;
  }
  return sum - std::log1p(b / a) - 0.5 * b / (a * (a + b)) + digamma_rest(a) - digamma_rest(a + b);
}

// e^s - 1 - s
double exp_beyond_line(double s) {
  if (std::fabs(s) > 0.25) return std::expm1(s) - s;
  double sum = 0;
  for (int n = 14; n >= 2; --n) sum = (sum + 1) * s / n;
  return sum * s;
}

// t = x e^(-s) or x e^s of a gamma distribution.
struct GammaTail {
  double a, x;
  double gap;   // |digamma(a) - ln x|
  double side;  // -1: below x, 1: above

  std::pair<double, double> at(double s) const {
    return {side * (a - x) * s - x * exp_beyond_line(side * s), gap + s};
  }
  TailRange range() const {
    const double y = std::log(x), falling = side * (x - a);
    double guess = std::min(9 / std::sqrt(x), 6 + std::fabs(y));
    if (falling > 0) guess = std::min(guess, 40 / falling);
    const double end = side < 0 ? y + kVanishing : kInfinity;
    return {std::max(guess, 1e-9),
            end,
            {side * (-kVanishing - y), side * (-12 - y), side * (-3 - y), side * (1 - y), 0}};
  }
  double rest(double s) const {
    if (side > 0) return 0;
    const auto [exponent, weight] = at(s);
    return std::exp(exponent) * (weight + 1 / a) / a;
  }
};

// t with ln(t / (1 - t)) = ln(x / v) -+ s of a beta distribution, v = 1 - x. `u` is x below it and
// v above, w the other one, `own` and `other` are their concentrations.
struct BetaTail {
  double u, w, own, other;
  double gap;  // |digamma(a) - digamma(a + b) - ln x|
  bool below;

  std::pair<double, double> at(double s) const {
    double p, q, exponent;  // ln(w + u e^-s), and p + s
    if (u <= 0.5) {
      p = std::log1p(u * std::expm1(-s));
      q = s + p;
      exponent = -own * s - (own + other) * p;
    } else {
      q = s < 40 ? std::log1p(w * std::expm1(s)) : s + std::log(w + u * std::exp(-s));
      p = q - s;
      exponent = other * s - (own + other) * q;
    }
    return {exponent, below ? gap + q : gap - p};
  }
  TailRange range() const {
    const double falling = own * w - other * u, distance = std::log(u) - std::log(w);
    double guess = 9 / std::sqrt((own + other) * u * w);
    if (falling > 0) guess = std::min(guess, 40 / falling);
    const double y = std::min(distance, 750.0), bend = y - std::log(std::max(own, 1.0));
    return {std::max(guess, 1e-9),
            y + kVanishing,
            {bend - kVanishing, bend - 12, bend - 3, bend + 1, y + 6}};
  }
  // Above, the weight still grows by u e^-s.
  double rest(double s) const {
    const auto [exponent, weight] = at(s);
    const double left = u * std::exp(-s);
    const double beyond = below ? (weight + 1 / own) / own : (weight + left / (1 + own)) / own;
    return std::exp(exponent) * beyond;
  }
};

template <typename P>
double gamma_gradient(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return 0;
  if (x == kInfinity || a == kInfinity) return a == kInfinity ? 1 : kInfinity;
  const double gap = digamma_less_log(a, x);
  const double side = gap > 0 ? -1 : 1;
  return x * integrate_tail<P>(GammaTail{a, x, std::fabs(gap), side});
}

// Divided by 1 - x.
template <typename P>
double beta_gradient(double x, double a, double total) {
  const double b = total - a, v = 1 - x;
  if (!(a > 0) || !(b >= 0) || !(x >= 0) || !(v >= 0) || total == kInfinity) return kNan;
  if (x == 0 || b == 0) return 0;
  const double log_x = x > 0.5 ? std::log1p(-v) : std::log(x);
  const double gap = digamma_step(a, b) - log_x;
  if (gap > 0) return x * integrate_tail<P>(BetaTail{x, v, a, b, gap, true});
  return x * integrate_tail<P>(BetaTail{v, x, b, a, -gap, false});
}

// c_k(eta): c_0 = 1 / mu - 1 / eta, c_k = (dc_(k-1)/deta) / eta + (-1)^k g_k / mu, where 1 / mu =
// sum r_n eta^(n-1) follows from mu dmu/deta = eta (1 + mu), and g_k are Stirling's coefficients.
// Each order takes two powers of the one before.
struct ExpansionTable {
  static constexpr int kAll = pathwise::kPowers + 2 * pathwise::kOrders;
  pathwise::UniformTable table;
  ExpansionTable() {
    static constexpr long double kStirling[] = {1.0L,
                                                1.0L / 12,
                                                1.0L / 288,
                                                -139.0L / 51840,
                                                -571.0L / 2488320,
                                                163879.0L / 209018880,
                                                5246819.0L / 75246796800};
    std::array<long double, kAll + 2> mu{}, inverse{};
    mu[1] = 1;
    for (size_t n = 2; n < mu.size(); ++n) {
      // The coefficient of eta^n in mu dmu/deta is (n + 1) / 2 times that of eta^(n+1) in mu^2.
      long double sum = 2 * mu[n - 1] / static_cast<long double>(n + 1);
      for (size_t i = 2; i < n; ++i) sum -= mu[i] * mu[n + 1 - i];
      mu[n] = sum / 2;
    }
    inverse[0] = 1;
    for (size_t n = 1; n + 1 < mu.size(); ++n) {
      for (size_t i = 1; i <= n; ++i) inverse[n] -= mu[i + 1] * inverse[n - i];
    }
    std::array<long double, kAll + 1> c{};
    for (size_t n = 0; n < kAll; ++n) c[n] = inverse[n + 1];
    for (size_t k = 0; k < pathwise::kOrders; ++k) {
      for (size_t n = 0; n < pathwise::kPowers; ++n) table[k][n] = static_cast<double>(c[n]);
      if (k + 1 == pathwise::kOrders) break;
      const long double g = k % 2 == 0 ? -kStirling[k + 1] : kStirling[k + 1];
      for (size_t n = 0; n + 2 < c.size(); ++n) {
        c[n] = static_cast<long double>(n + 2) * c[n + 2] + g * inverse[n + 1];
      }
    }
  }
};

const pathwise::UniformTable& expansion_table() {
  static const ExpansionTable made;
  return made.table;
}

const pathwise::Loops& pathwise_loops() {
  static const LoopTable<pathwise::Loops> table = FLAMBEAU_LOOP_TABLE(pathwise);
  return table[0];
}

// The cost of an element, in the operations that parallel_for counts.
constexpr int64_t kCost = 200;

// out = gradients, by blocks: by_block(arguments..., out, unsure), then by_element(i) for the
// elements that it leaves.
template <typename T, size_t N, typename ByBlock, typename ByElement>
void fill_blocks(Tensor& out, const std::array<const T*, N>& from, const ByBlock& by_block,
                 const ByElement& by_element) {
  constexpr int64_t kBlock = pathwise::kBlock;
  T* const to = out.data_as<T>();
  const int64_t count = out.numel();
  const auto one_block = [&](int64_t first) {
    double in[N][kBlock] = {}, result[kBlock];
    uint8_t unsure[kBlock];
    const int64_t n = std::min(kBlock, count - first);
    for (size_t k = 0; k < N; ++k) {
      for (int64_t i = 0; i < n; ++i) in[k][i] = static_cast<double>(from[k][first + i]);
    }
    by_block(in, result, unsure);
    for (int64_t i = 0; i < n; ++i) {
      const double value = unsure[i] ? by_element(in, i) : result[i];
      to[first + i] = static_cast<T>(static_cast<accumulate_t<T>>(value));
    }
  };
  parallel_for(0, (count + kBlock - 1) / kBlock, kCost * kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) one_block(b * kBlock);
  });
}

Tensor broadcast_copy(const Tensor& self, const Tensor& like) {
  const Tensor copy = empty_tensor(like.sizes(), self.dtype());
  copy_into(copy, self);
  return copy;
}

template <typename T>
using precision_of =
    std::conditional_t<std::is_same_v<T, double>, DoublePrecision, SinglePrecision>;

// Series and expansion as exact as the integrals.
template <typename T>
constexpr pathwise::Precision kSeriesPrecision =
    std::is_same_v<T, double> ? pathwise::Precision{1e-15, 4e3, 7, 24}
                              : pathwise::Precision{1e-12, 1e5, 3, 12};

}  // namespace

void standard_gamma_grad_cpu(const Tensor& self, const Tensor& output, Tensor& out) {
  const Tensor concentrations = broadcast_copy(self, out), samples = broadcast_copy(output, out);
  const pathwise::UniformTable& table = expansion_table();
  dispatch_floating(out.dtype(), "_standard_gamma_grad_cpu", [&]<typename T>() {
    fill_blocks<T, 2>(
        out, {concentrations.data_as<T>(), samples.data_as<T>()},
        [&](const auto& in, double* to, uint8_t* unsure) {
          pathwise_loops().gamma(in[0], in[1], table, kSeriesPrecision<T>, to, unsure);
        },
        [](const auto& in, int64_t i) {
          return gamma_gradient<precision_of<T>>(in[0][i], in[1][i]);
        });
  });
}

void dirichlet_grad_cpu(const Tensor& x, const Tensor& alpha, const Tensor& total, Tensor& out) {
  const Tensor samples = broadcast_copy(x, out), concentrations = broadcast_copy(alpha, out),
               totals = broadcast_copy(total, out);
  dispatch_floating(out.dtype(), "_dirichlet_grad_cpu", [&]<typename T>() {
    fill_blocks<T, 3>(
        out, {samples.data_as<T>(), concentrations.data_as<T>(), totals.data_as<T>()},
        [&](const auto& in, double* to, uint8_t* unsure) {
          pathwise_loops().beta(in[0], in[1], in[2], kSeriesPrecision<T>, to, unsure);
        },
        [](const auto& in, int64_t i) {
          return beta_gradient<precision_of<T>>(in[0][i], in[1][i], in[2][i]);
        });
  });
}

}  // namespace ops
}  // namespace flambeau
