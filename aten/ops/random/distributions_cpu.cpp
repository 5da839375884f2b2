// Continuous and Bernoulli distributions on CPU. exponential_ and bernoulli_(p) use a double per
// element; probabilities in a tensor use a float each, or a double where the tensor is double.
// Formula: uniform, normal, exponential x = -log(1 - u) / lambda, and 1 where a uniform number is
// below p.
// Accumulates in: half types draw float32 numbers and round.
// NaN, infinity: a NaN bound, std, lambda or probability raises RuntimeError; a NaN mean gives NaN.
// Error: none: number for number those of PyTorch after the same seed.
// Source: by definition; normal numbers: Box and Muller 1958.
#include <cmath>
#include <limits>
#include <numbers>

#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"
#include "aten/cpu/generator.h"
#include "aten/ops/random/draw_target.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::ops {
namespace {

constexpr int64_t kBlock = 512;

// body(out, count) for stretches of at most kBlock elements.
template <typename T, typename Body>
void in_blocks(T* out, int64_t n, const Body& body) {
  for (int64_t i = 0; i < n; i += kBlock) body(out + i, std::min(kBlock, n - i));
}

template <typename T>
constexpr double largest_of() {
  if constexpr (std::is_same_v<T, Half>)
    return 65504.0;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 0x1.fep127;
  else
    return std::numeric_limits<T>::max();
}

template <typename T>
void check_uniform(double from, double to) {
  constexpr double largest = largest_of<T>();
  const char* name = pytorch_name_of(scalar_type_of<T>);
  check(from >= -largest && from <= largest, "expected from within the range of ", name, ", got ",
        from, " (from is out of bounds)");
  check(to >= -largest && to <= largest, "expected to within the range of ", name, ", got ", to,
        " (to is out of bounds)");
  check(from <= to, "uniform_: expected from <= to, got from=", from, " and to=", to);
  check(to - from <= largest, "uniform_ expects to-from <= ", largest, ", but found to=", to,
        " and from=", from);
}

template <typename T>
void draw_uniform(CpuGenerator& generator, T* out, int64_t n, double from, double to) {
  if constexpr (sizeof(T) >= sizeof(float)) {
    generator.fill_uniform(out, n, static_cast<T>(from), static_cast<T>(to));
  } else {
    const float first = static_cast<float>(from), end = static_cast<float>(to);
    const float low = T(first), high = T(end);
    in_blocks(out, n, [&](T* block, int64_t count) {
      float draws[kBlock];
      generator.fill_uniform(draws, count, first, end);
      for (int64_t i = 0; i < count; ++i) {
        const T value = draws[i];
        block[i] = value == high ? T(low) : value;
      }
    });
  }
}

}  // namespace

void uniform_cpu(Tensor& self, double from_, double to, GeneratorImpl* generator) {
  dispatch_floating(to_real_type(self.dtype()), "check_uniform_bounds", [&]<typename T>() {
    check_uniform<T>(from_, to);
    if (self.numel() == 0) return;
    CpuGenerator& source = cpu_generator_or_default(generator);
    const std::lock_guard lock(source.mutex());
    const DrawTarget target(self);
    draw_uniform(source, target.buffer().data_as<T>(), target.buffer().numel(), from_, to);
    target.commit();
  });
}

void normal_cpu(Tensor& self, double mean, double std, GeneratorImpl* generator) {
  check(std >= 0.0, "normal: expected std >= 0.0, got ", std);
  // A complex number's variance is shared by its parts.
  const double scale = self.is_complex() ? std / std::numbers::sqrt2 : std;
  dispatch_floating(to_real_type(self.dtype()), "normal_kernel_cpu", [&]<typename T>() {
    if (self.numel() == 0) return;
    CpuGenerator& source = cpu_generator_or_default(generator);
    const std::lock_guard lock(source.mutex());
    const DrawTarget target(self);
    T* out = target.buffer().data_as<T>();
    const int64_t n = target.buffer().numel();
    if (self.is_contiguous()) {
      source.fill_normal(out, n, mean, scale);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(source.normal(mean, scale));
    }
    target.commit();
  });
}

void exponential_cpu(Tensor& self, double lambd, GeneratorImpl* generator) {
  check(self.is_floating_point(), "exponential_: expected a floating dtype, got ",
        pytorch_name_of(self.dtype()));
  check(lambd > 0.0, "exponential_: expected lambda > 0.0, got lambda=", lambd);
  if (self.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(self);
  dispatch_floating(self.dtype(), "exponential_", [&]<typename T>() {
    in_blocks(target.buffer().data_as<T>(), self.numel(), [&](T* out, int64_t n) {
      double uniform[kBlock];
      source.fill_uniform(uniform, n, 0.0, 1.0);
      for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<T>(-1.0 / lambd * std::log1p(-uniform[i]));
    });
  });
  target.commit();
}

void bernoulli_p_cpu(Tensor& self, double p, GeneratorImpl* generator) {
  check(p >= 0.0 && p <= 1.0, "bernoulli_: expected p in [0, 1], got p=", p);
  if (self.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(self);
  // k * 2^-53 < p as a comparison of whole numbers; p * 2^53 is exact.
  const auto limit = static_cast<int64_t>(std::ceil(p * 0x1p53));
  dispatch_ordered(self.dtype(), "bernoulli_scalar_cpu_", [&]<typename T>() {
    in_blocks(target.buffer().data_as<T>(), self.numel(), [&](T* out, int64_t n) {
      uint64_t raw[kBlock];
      source.fill_raw64(raw, n);
      // A table: no branch to mispredict.
      const T values[2] = {static_cast<T>(0), static_cast<T>(1)};
      for (int64_t i = 0; i < n; ++i) {
        out[i] = values[static_cast<int64_t>(raw[i] & ((uint64_t{1} << 53) - 1)) < limit];
      }
    });
  });
  target.commit();
}

namespace {

// out[i] = uniform < p[i], uniform numbers of P's precision.
template <typename T, typename P>
void draw_bernoulli(CpuGenerator& source, const P* p, T* out, int64_t n) {
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t count = std::min(kBlock, n - start);
    P uniform[kBlock];
    source.fill_uniform(uniform, count, P(0), P(1));
    for (int64_t i = start; i < start + count; ++i) {
      check(p[i] >= 0 && p[i] <= 1, "bernoulli: expected p in [0, 1], got ", p[i]);
      out[i] = static_cast<T>(uniform[i - start] < p[i] ? 1 : 0);
    }
  }
}

void bernoulli_into(const Tensor& self, const Tensor& p, GeneratorImpl* generator) {
  if (!p.is_floating_point()) fail_dtype("bernoulli_tensor_cpu_p_", p.dtype());
  if (self.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(self);
  const ScalarType precision = compute_type(p.dtype());
  const Tensor chances = cast_tensor(target.in_order(p), precision);
  dispatch_ordered(self.dtype(), "bernoulli_tensor_cpu_self_", [&]<typename T>() {
    T* out = target.buffer().data_as<T>();
    if (precision == ScalarType::Float64) {
      draw_bernoulli(source, chances.data_as<double>(), out, self.numel());
    } else {
      draw_bernoulli(source, chances.data_as<float>(), out, self.numel());
    }
  });
  target.commit();
}

}  // namespace

void bernoulli_tensor_cpu(Tensor& self, const Tensor& p, GeneratorImpl* generator) {
  const DimVector sizes = broadcast_sizes(self.sizes(), p.sizes());
  check(self.sizes() == IntArrayRef(sizes),
        "bernoulli_: ", WrongOutputShape{self.sizes(), IntArrayRef(sizes)});
  // Stride 0 along the dimensions in which p is broadcast.
  ViewGeometry expanded{self.sizes(), DimVector(self.sizes().size()), p.storage_offset()};
  for (int64_t d = 1; d <= p.dim(); ++d) {
    const auto at = static_cast<size_t>(self.dim() - d);
    expanded.strides[at] = p.size(-d) == 1 ? 0 : p.stride(-d);
  }
  bernoulli_into(self, plain_view(p, expanded), generator);
}

void bernoulli_cpu(const Tensor& self, GeneratorImpl* generator, Tensor& out) {
  bernoulli_into(out, self, generator);
}

}  // namespace flambeau::ops
