// Gamma and Dirichlet samples on CPU.
// Formula:
//   gamma(a), scale 1: squeezed rejection from the cube of a normal number; below a = 1, a sample
//   of a + 1 times u^(1/a). dirichlet(a): gamma samples in double precision, divided by their sum.
//   Samples are never zero: they are clamped to the smallest normal number of their dtype,
//   Dirichlet samples also to the largest below 1. A concentration of 0 or less gives that smallest
//   number.
// Accumulates in: double.
// NaN, infinity: NaN gives NaN, an infinite concentration gives infinity.
// Error: none: number for number those of PyTorch after the same seed.
// Source: Marsaglia & Tsang 2000, "A simple method for generating gamma variables"; Devroye 1986,
// chapter XI, theorem 4.1.
#include <cmath>
#include <limits>
#include <vector>

#include "aten/core/shape.h"
#include "aten/cpu/generator.h"
#include "aten/ops/random/draw_target.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::ops {
namespace {

// C: the dtype in which PyTorch keeps the concentration, and with it the constants below.
template <typename C>
double draw_gamma(C concentration, CpuGenerator& source) {
  if (!(concentration > 0)) return concentration == concentration ? 0.0 : concentration;
  double scale = 1;
  if (concentration < 1) {
    scale = std::pow(1 - source.uniform_double(), 1 / concentration);
    concentration += 1;
  }
  const double d = concentration - static_cast<C>(1.0f / 3.0f);
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    double x, y;
    do {
      x = source.normal(0.0, 1.0);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - source.uniform_double(), square = x * x;
    if (u < 1 - 0.0331 * square * square) return scale * d * v;
    if (std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

template <typename T>
constexpr double smallest_of() {
  if constexpr (std::is_same_v<T, Half>)
    return 0x1p-14;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 0x1p-126;
  else
    return std::numeric_limits<T>::min();
}

// The largest number below 1.
template <typename T>
constexpr double largest_share() {
  if constexpr (std::is_same_v<T, Half>)
    return 1 - 0x1p-11;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 1 - 0x1p-8;
  else
    return 1 - std::numeric_limits<T>::epsilon() / 2;
}

template <typename T>
T narrowed(double value) {
  return static_cast<T>(static_cast<accumulate_t<T>>(value));
}

// Keeps NaN.
double at_least(double lowest, double value) { return value < lowest ? lowest : value; }

// A row of n gamma samples, divided by their sum.
template <typename T>
void draw_shares(const T* concentrations, T* out, int64_t n, std::vector<double>& gammas,
                 CpuGenerator& source) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double drawn = draw_gamma(static_cast<double>(concentrations[i]), source);
    gammas[static_cast<size_t>(i)] = at_least(std::numeric_limits<double>::min(), drawn);
    sum += gammas[static_cast<size_t>(i)];
  }
  for (int64_t i = 0; i < n; ++i) {
    const double share = gammas[static_cast<size_t>(i)] / sum;
    const double kept = share > largest_share<T>() ? largest_share<T>() : share;
    out[i] = narrowed<T>(at_least(smallest_of<T>(), kept));
  }
}

}  // namespace

void standard_gamma_cpu(const Tensor& self, GeneratorImpl* generator, Tensor& out) {
  if (out.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(out);
  const Tensor concentrations = target.in_order(self);
  dispatch_floating(out.dtype(), "gamma_cpu", [&]<typename T>() {
    const T* a = concentrations.data_as<T>();
    T* to = target.buffer().data_as<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const double drawn = draw_gamma(static_cast<accumulate_t<T>>(a[i]), source);
      to[i] = narrowed<T>(at_least(smallest_of<T>(), drawn));
    }
  });
  target.commit();
}

void sample_dirichlet_cpu(const Tensor& self, GeneratorImpl* generator, Tensor& out) {
  if (out.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const Tensor concentrations = contiguous_tensor(self);
  const int64_t n = self.dim() == 0 ? 1 : self.size(-1);
  std::vector<double> gammas(static_cast<size_t>(n));
  dispatch_floating(out.dtype(), "dirichlet", [&]<typename T>() {
    const T* a = concentrations.data_as<T>();
    T* to = out.data_as<T>();
    for (int64_t i = 0; i < out.numel(); i += n) draw_shares(a + i, to + i, n, gammas, source);
  });
}

}  // namespace flambeau::ops
