// Distributions on CPU whose numbers take any number of draws, and those that transform one draw.
// Formula:
//   poisson: products of uniform numbers below a rate of 10, else transformed rejection.
//   binomial: sums of geometric waiting times below a mean of 10, else transformed rejection with
//   squeeze; a probability above 1/2 counts failures.
//   cauchy = median + sigma tan(pi (u - 1/2)); log_normal = e^normal; geometric = ceil(ln u /
//   ln(1-p)).
// Accumulates in: double.
// NaN, infinity: binomial: a NaN count or probability gives NaN; a NaN rate or scale raises
// RuntimeError.
// Error: none: number for number those of PyTorch after the same seed.
// Source: Hörmann 1993, "The transformed rejection method for generating Poisson random variables"
// and "The generation of binomial random variates"; Devroye 1986, chapter X.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <type_traits>

#include "aten/core/shape.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/generator.h"
#include "aten/ops/random/draw_target.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::ops {
namespace {

// Where both methods switch to rejection.
constexpr double kRejectFrom = 10.0;

int64_t poisson_by_product(double rate, CpuGenerator& source) {
  const double limit = std::exp(-rate);
  double product = source.uniform_double();
  int64_t count = 0;
  for (; product > limit; ++count) product *= source.uniform_double();
  return count;
}

int64_t poisson_by_rejection(double rate, CpuGenerator& source) {
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accepted = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = source.uniform_double() - 0.5, v = source.uniform_double();
    const double edge = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= accepted) return static_cast<int64_t>(k);
    if (k < 0 || (edge < 0.013 && v > edge)) continue;
    const double drawn = std::log(v) + std::log(inverse_alpha) - std::log(a / (edge * edge) + b);
    if (drawn <= -rate + k * log_rate - std::lgamma(k + 1)) return static_cast<int64_t>(k);
  }
}

int64_t draw_poisson(double rate, CpuGenerator& source) {
  check(rate >= 0, "invalid Poisson rate: expected 0 or more, got ", rate);
  if (rate == 0) return 0;
  return rate >= kRejectFrom ? poisson_by_rejection(rate, source)
                             : poisson_by_product(rate, source);
}

// ln k! - its Stirling approximation without the correction term.
double stirling_rest(double k) {
  static constexpr double kFirst[] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983,
                                      0.0207906721037650, 0.0166446911898211, 0.0138761288230707,
                                      0.0118967099458917, 0.0104112652619720, 0.00925546218271273,
                                      0.00833056343336287};
  if (k <= 9) return kFirst[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

double binomial_by_rejection(double count, double p, CpuGenerator& source) {
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = count * p + 0.5, accepted = 0.92 - 4.2 / b;
  const double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((count + 1) * p);
  while (true) {
    const double u = source.uniform_double() - 0.5;
    double v = source.uniform_double();
    const double edge = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / edge + b) * u + center);
    if (edge >= 0.07 && v <= accepted) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (edge * edge) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) +
                         stirling_rest(mode) + stirling_rest(count - mode) - stirling_rest(k) -
                         stirling_rest(count - k);
    if (v <= bound) return k;
  }
}

double binomial_by_waiting(double count, double p, CpuGenerator& source) {
  const double log_failure = std::log1p(-p);
  double successes = 0, waited = 0;
  while (true) {
    waited += std::ceil(std::log(source.uniform_double()) / log_failure);
    if (waited > count) return successes;
    ++successes;
  }
}

double draw_binomial(double count, double p, CpuGenerator& source) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  const double rarer = p <= 0.5 ? p : 1 - p;
  const double drawn = count * rarer >= kRejectFrom ? binomial_by_rejection(count, rarer, source)
                                                    : binomial_by_waiting(count, rarer, source);
  return p <= 0.5 ? drawn : count - drawn;
}

// self[i] = draw(source), in the order of memory. Integers are converted as copy_ converts a
// double: a number out of their range has no conversion in C++.
template <typename Draw>
void fill_each(const char* op, const Tensor& self, GeneratorImpl* generator, const Draw& draw) {
  if (self.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(self);
  dispatch_ordered(self.dtype(), op, [&]<typename T>() {
    T* out = target.buffer().data_as<T>();
    if constexpr (std::is_integral_v<T>) {
      const CastLoop narrow = cast_loop(ScalarType::Float64, self.dtype());
      std::array<double, 128> drawn;
      for (int64_t i = 0; i < self.numel(); i += std::ssize(drawn)) {
        const int64_t n = std::min<int64_t>(std::ssize(drawn), self.numel() - i);
        for (int64_t j = 0; j < n; ++j) drawn[static_cast<size_t>(j)] = draw(source);
        narrow(n, reinterpret_cast<const char*>(drawn.data()), sizeof(double),
               reinterpret_cast<char*>(out + i), sizeof(T));
      }
    } else {
      for (int64_t i = 0; i < self.numel(); ++i) out[i] = static_cast<T>(draw(source));
    }
  });
  target.commit();
}

}  // namespace

void poisson_cpu(const Tensor& self, GeneratorImpl* generator, Tensor& out) {
  if (out.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(out);
  const Tensor rates = target.in_order(self);
  dispatch_floating(out.dtype(), "poisson_cpu", [&]<typename T>() {
    const T* rate = rates.data_as<T>();
    T* to = target.buffer().data_as<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      to[i] = static_cast<T>(
          static_cast<accumulate_t<T>>(draw_poisson(static_cast<double>(rate[i]), source)));
    }
  });
  target.commit();
}

void binomial_cpu(const Tensor& self, const Tensor& prob, GeneratorImpl* generator, Tensor& out) {
  if (out.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const Tensor counts = empty_tensor(out.sizes(), ScalarType::Float64);
  const Tensor chances = empty_tensor(out.sizes(), ScalarType::Float64);
  copy_into(counts, self);
  copy_into(chances, prob);
  const double *n = counts.data_as<double>(), *p = chances.data_as<double>();
  dispatch_floating(out.dtype(), "binomial_cpu", [&]<typename T>() {
    T* to = out.data_as<T>();
    for (int64_t i = 0; i < out.numel(); ++i)
      to[i] = static_cast<T>(draw_binomial(n[i], p[i], source));
  });
}

void cauchy_cpu(Tensor& self, double median, double sigma, GeneratorImpl* generator) {
  check(self.is_floating_point(), "cauchy_: expected a floating dtype, got ",
        pytorch_name_of(self.dtype()));
  check(sigma > 0.0, "cauchy_: expected sigma > 0.0, got sigma=", sigma);
  fill_each("cauchy_", self, generator, [=](CpuGenerator& source) {
    return std::fma(sigma, std::tan(std::numbers::pi * (source.uniform_double() - 0.5)), median);
  });
}

void log_normal_cpu(Tensor& self, double mean, double std, GeneratorImpl* generator) {
  if (!self.is_floating_point()) fail_dtype("log_normal_", self.dtype());
  check(std > 0.0, "log_normal_: expected std > 0.0, got std=", std);
  fill_each("log_normal_", self, generator,
            [=](CpuGenerator& source) { return std::exp(source.normal(mean, std)); });
}

void geometric_cpu(Tensor& self, double p, GeneratorImpl* generator) {
  check(p > 0 && p < 1, "geometric_: expected p in (0, 1), got p=", p);
  if (self.dtype() == ScalarType::Bool) fail_dtype("geometric_", self.dtype());
  fill_each("geometric_", self, generator, [=](CpuGenerator& source) {
    return std::ceil(std::log(source.uniform_double()) / std::log1p(-p));
  });
}

}  // namespace flambeau::ops
