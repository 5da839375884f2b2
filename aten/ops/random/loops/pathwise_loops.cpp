// Implicit derivatives of gamma and beta samples, compiled once per instruction set. Elements are
// lanes.
// Formula:
//   gamma, a < kUniformFrom: the distribution function is p(x) x / a sum_n t_n with
//     t_n = x^n / ((a + 1) ... (a + n)). Its derivative in a gives
//     dx/da = x / a (S (digamma(a + 1) - ln x) + sum_n t_n (1 / (a + 1) + ... + 1 / (a + n))).
//   gamma, larger a: Temme's uniform expansion, derived in a.
//   beta: the same with t_n = (a + b)_n / (q)_n y^n; below the mean y = x, q = a + 1, above it
//     y = 1 - x, q = b + 1 and the sum for 1 - F.
// Accumulates in: double.
// NaN, infinity: NaN gives NaN.
// Error: that of pathwise_gradients_cpu.cpp: below 1e-10 relative.
// Source: DLMF 8.7.1, 8.12.3-8.12.11, 8.17.7; Temme 1979, "The asymptotic expansion of the
// incomplete gamma functions".
#include "aten/ops/random/pathwise_loops.h"

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/vector_bytes.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using pathwise::kBlock;
using pathwise::Precision;
using vec::kVectorBytes;

constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(double));
typedef double Lanes __attribute__((vector_size(kVectorBytes)));
typedef int64_t Flags __attribute__((vector_size(kVectorBytes)));

[[gnu::always_inline]] inline Lanes load(const double* from) {
  Lanes value;
  __builtin_memcpy(&value, from, kVectorBytes);
  return value;
}
[[gnu::always_inline]] inline void store(Lanes value, double* to) {
  __builtin_memcpy(to, &value, kVectorBytes);
}
[[gnu::always_inline]] inline bool all(Flags flags) {
  int64_t both = -1;
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i) both &= flags[i];
  return both != 0;
}

constexpr int kStride = 4;  // terms between two looks at the sums
constexpr int kMostTerms = 512;
constexpr double kLeastSample = 1e-290;  // products of smaller ones would be denormal
constexpr double kFarthest = 0.8;        // y from which on the other side's series is shorter
constexpr double kMostSpread = 1000;     // a b / (a + b), whose root the number of terms follows

// sum t_n and sum t_n g_n with t_0 = 1, g_0 = 0, t_(n+1) = t_n y (s + n) / (q + n), g_(n+1) = g_n +
// (e + f n) / ((s + n) (q + n)).
struct Ratios {
  Lanes y, s, q, e, f;
};
struct Sums {
  Lanes terms, slopes;
  Flags converged;
};

[[gnu::always_inline]] inline Sums series(const Ratios& given, double least) {
  const Lanes one = Lanes{} + 1.0;
  Lanes s = given.s, q = given.q, e = given.e;
  Lanes term = one, slope{}, terms = one, slopes{};
  Flags converged{};
  for (int n = 0; n < kMostTerms; n += kStride) {
    Lanes ratio{};
#pragma GCC unroll 4
    for (int i = 0; i < kStride; ++i) {
      const Lanes inverse = one / (s * q);
      ratio = given.y * s * s * inverse;
      slope += e * inverse;
      term *= ratio;
      terms += term;
      slopes += term * slope;
      s += one;
      q += one;
      e += given.f;
    }
    // The ratio falls or rises to y; the terms left out are at most those of the larger one.
    const Lanes bound = ratio > given.y ? ratio : given.y;
    const Lanes left = (one - bound) * least;
    const Lanes size = slope < 0.0 ? -slope : slope, sum = slopes < 0.0 ? -slopes : slopes;
    converged = (term * bound <= left * terms) & (term * size * bound <= left * sum);
    if (all(converged)) break;
  }
  return {terms, slopes, converged};
}

// digamma(p) - digamma(above) for positive p and above = p + d, where both may be rounded:
// nothing cancels where d is small.
[[gnu::always_inline]] inline double digamma_step(double p, double above, double d) {
  double sum = 0;
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    sum -= d / (p * above);
    p += 1;
    above += 1;
  }
  const double z = 1 / (p * p), w = 1 / (above * above);
  const double rest = vec::digamma_tail(w) * w - vec::digamma_tail(z) * z;
  return sum - vec::log1p(d / p) - 0.5 * d / (p * above) + rest;
}

// --- gamma

// sum t_n and sum t_n g_n with t_n = x^n / ((a + 1) ... (a + n)), g_n = 1 / (a + 1) + ... + 1 / (a
// + n).
[[gnu::always_inline]] inline Sums power_series(Lanes a, Lanes x, double least) {
  const Lanes one = Lanes{} + 1.0;
  Lanes term = one, slope{}, terms = one, slopes{};
  Flags converged{};
  for (int n = 0; n < kMostTerms; n += kStride) {
#pragma GCC unroll 4
    for (int i = 0; i < kStride; ++i) {
      a += one;
      const Lanes inverse = one / a;
      slope += inverse;
      term *= x * inverse;
      terms += term;
      slopes += term * slope;
    }
    // Later ratios are below x / a.
    converged = term * slope * x <= (a - x) * least * slopes;
    if (all(converged)) break;
  }
  return {terms, slopes, converged};
}

FLAMBEAU_WIDE_VECTORS void gamma_by_series(const double* a, const double* x, const Precision& p,
                                           double* out, uint8_t* unsure) {
  double gap[kBlock];
#pragma omp simd
  for (int64_t i = 0; i < kBlock; ++i) gap[i] = vec::digamma_positive(a[i] + 1.0) - vec::log(x[i]);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    const Lanes c = load(a + i), v = load(x + i);
    const Sums sums = power_series(c, v, p.term);
    const Lanes first = sums.terms * load(gap + i), size = first < 0.0 ? -first : first;
    const Lanes total = first + sums.slopes;
    store(v / c * total, out + i);
    const Flags sure = sums.converged & (size + sums.slopes <= p.cancellation * total);
    for (int k = 0; k < kLanes; ++k) unsure[i + k] = sure[k] == 0;
  }
}

// S = sum c_k(eta) a^-k, dS/da a and dS/deta.
struct Expansion {
  Lanes sum, in_a, in_eta;
};
[[gnu::always_inline]] inline Expansion expansion(const pathwise::UniformTable& table,
                                                  const Precision& p, Lanes eta, Lanes inverse) {
  Expansion s{};
  for (int k = p.orders - 1; k >= 0; --k) {
    Lanes value{}, slope{};
    // A factor 1 / a >= 40 makes up for three powers of eta / 3.5.
    for (int n = p.powers - 3 * k - 1; n >= 0; --n) {
      slope = slope * eta + value;
      value = value * eta + table[k][n];
    }
    s.sum = s.sum * inverse + value;
    s.in_eta = s.in_eta * inverse + slope;
    s.in_a = s.in_a * inverse - value * static_cast<double>(k);
  }
  return s;
}

// With l = x / a, mu = l - 1, eta^2 / 2 = mu - ln l of mu's sign and S = sum c_k(eta) a^-k:
//   F = erfc(-eta sqrt(a / 2)) / 2 - e^(-a eta^2 / 2) / sqrt(2 pi a) S
//   dx/da = -l G (eta / 2 - mu / eta - S (ln l - 1 / (2 a)) - dS/da + dS/deta mu / (a eta)),
// G = gamma(a) / (sqrt(2 pi / a) (a / e)^a).
FLAMBEAU_WIDE_VECTORS void gamma_by_expansion(const double* a, const double* x,
                                              const pathwise::UniformTable& table,
                                              const Precision& p, double* out, uint8_t* unsure) {
  double eta[kBlock], log_ratio[kBlock], sum[kBlock], in_a[kBlock], in_eta[kBlock];
#pragma omp simd
  for (int64_t i = 0; i < kBlock; ++i) {
    const double mu = (x[i] - a[i]) / a[i], l = vec::log1p(mu), size = vec::abs(mu);
    // mu - ln(1 + mu) cancels near 0.
    double ratio = vec::madd(-0.10270061728395062, mu, 0.13518518518518519);
    ratio = vec::madd(-ratio, mu, 0.19444444444444445);
    ratio = vec::madd(ratio, mu, -1.0 / 3);
    const double near = mu * vec::madd(ratio, mu, 1.0);
    const double far = vec::copysign(vec::sqrt(2 * (mu - l)), mu);
    eta[i] = size < 1e-3 ? near : far;
    log_ratio[i] = l;
  }
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    const Expansion s = expansion(table, p, load(eta + i), 1.0 / load(a + i));
    store(s.sum, sum + i);
    store(s.in_a, in_a + i);
    store(s.in_eta, in_eta + i);
  }
#pragma omp simd
  for (int64_t i = 0; i < kBlock; ++i) {
    const double inverse = 1 / a[i], mu = (x[i] - a[i]) * inverse;
    const double ratio = eta[i] == 0 ? 1.0 : mu / eta[i];
    double stirling = vec::madd(0.00078403922172006663, inverse, -0.00022947209362139918);
    stirling = vec::madd(stirling, inverse, -0.0026813271604938272);
    stirling = vec::madd(stirling, inverse, 0.0034722222222222222);
    stirling = vec::madd(stirling, inverse, 1.0 / 12);
    stirling = vec::madd(stirling, inverse, 1.0);
    const double rest =
        sum[i] * (log_ratio[i] - 0.5 * inverse) + in_a[i] * inverse - in_eta[i] * ratio * inverse;
    out[i] = -(1 + mu) * stirling * (0.5 * eta[i] - ratio - rest);
    unsure[i] = !(vec::abs(eta[i]) < 1.0);
  }
}

void gamma(const double* a, const double* x, const pathwise::UniformTable& table,
           const Precision& p, double* out, uint8_t* unsure) {
  // Both ways take arguments that they are meant for; an element's own is chosen afterwards.
  double small_a[kBlock], small_x[kBlock], large_a[kBlock], large_x[kBlock], other[kBlock];
  uint8_t doubtful[kBlock];
  int64_t small = 0, large = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    const bool is_large = a[i] >= pathwise::kUniformFrom && x[i] > 0.25 * a[i] && x[i] < 4 * a[i];
    const bool is_small = a[i] > 0 && a[i] < pathwise::kUniformFrom && x[i] >= kLeastSample &&
                          x[i] < a[i] + 10 * vec::sqrt(a[i]) + 20;
    small_a[i] = is_small ? a[i] : 1.0;
    small_x[i] = is_small ? x[i] : 1.0;
    large_a[i] = is_large ? a[i] : 100.0;
    large_x[i] = is_large ? x[i] : 100.0;
    small += is_small;
    large += is_large;
    doubtful[i] = !(is_small | is_large);
  }
  if (small > 0) gamma_by_series(small_a, small_x, p, out, unsure);
  if (large > 0) {
    uint8_t unsure_too[kBlock];
    gamma_by_expansion(large_a, large_x, table, p, other, unsure_too);
    for (int64_t i = 0; i < kBlock; ++i) {
      const bool is_large = a[i] >= pathwise::kUniformFrom || small == 0;
      out[i] = is_large ? other[i] : out[i];
      unsure[i] = is_large ? unsure_too[i] : unsure[i];
    }
  }
  for (int64_t i = 0; i < kBlock; ++i) unsure[i] = doubtful[i] || unsure[i];
}

// --- beta

// Arguments of a side that converges, on which most of the distribution's other side lies.
struct BetaSide {
  double y[kBlock], s[kBlock], q[kBlock], e[kBlock], f[kBlock], weight[kBlock], gap[kBlock];
};

FLAMBEAU_WIDE_VECTORS void beta_sides(const double* x, const double* a, const double* total,
                                      BetaSide& side) {
#pragma omp simd
  for (int64_t i = 0; i < kBlock; ++i) {
    const double b = total[i] - a[i], v = 1 - x[i];
    const double log_x = x[i] > 0.5 ? vec::log1p(-v) : vec::log(x[i]);
    const bool is_below = x[i] * total[i] <= a[i];
    const bool below = is_below ? x[i] <= kFarthest : v > kFarthest;
    const double p = below ? a[i] + 1 : a[i], d = below ? b - 1 : b;
    const double step = digamma_step(p, total[i], d) - log_x;
    side.y[i] = below ? x[i] : v;
    side.s[i] = total[i];
    side.q[i] = below ? p : b + 1;
    side.e[i] = below ? -d : b + 1;
    side.f[i] = below ? 0.0 : 1.0;
    side.weight[i] = x[i] / (below ? -a[i] : b);
    side.gap[i] = -step;
  }
}

void beta(const double* x, const double* a, const double* total, const Precision& p, double* out,
          uint8_t* unsure) {
  double in_x[kBlock], in_a[kBlock], in_total[kBlock];
  uint8_t doubtful[kBlock];
  int64_t count = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    const double b = total[i] - a[i];
    const bool in_range =
        a[i] > 0 && b > 0 && a[i] * b <= kMostSpread * total[i] && x[i] >= kLeastSample && x[i] < 1;
    in_x[i] = in_range ? x[i] : 0.5;
    in_a[i] = in_range ? a[i] : 1.0;
    in_total[i] = in_range ? total[i] : 2.0;
    count += in_range;
    doubtful[i] = !in_range;
  }
  for (int64_t i = 0; i < kBlock; ++i) unsure[i] = 1;
  if (count == 0) return;
  BetaSide side;
  beta_sides(in_x, in_a, in_total, side);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    const Ratios ratios{load(side.y + i), load(side.s + i), load(side.q + i), load(side.e + i),
                        load(side.f + i)};
    const Sums sums = series(ratios, p.term);
    const Lanes first = sums.terms * load(side.gap + i), total_of = first + sums.slopes;
    const auto size = [](Lanes v) { return v < 0.0 ? -v : v; };
    store(load(side.weight + i) * total_of, out + i);
    const Flags sure =
        sums.converged & (size(first) + size(sums.slopes) <= p.cancellation * size(total_of));
    for (int k = 0; k < kLanes; ++k) unsure[i + k] = doubtful[i + k] || sure[k] == 0;
  }
}

}  // namespace

extern const pathwise::Loops FLAMBEAU_LOOPS(pathwise)[1];
const pathwise::Loops FLAMBEAU_LOOPS(pathwise)[1] = {{&gamma, &beta}};

}  // namespace flambeau::loops
