// Tensors that are filled from numbers alone, on CPU.
// Formula: arange: start + i step; linspace: start + i (end - start) / (steps - 1), counted from
// the nearer end so that both ends are met exactly; logspace: base^linspace; eye: 1 on the
// diagonal.
// Accumulates in: arange: int64, or double for floating types; linspace and logspace: double for
// integers, float32 for half types, else the dtype.
// NaN, infinity: numbers that are given fill as they are; NaN or infinite ends give IEEE results,
// and arange refuses them.
// Error: 2e-5 relative in float32, 1e-11 in float64 (test/ops/test_values.py).
// Source: by definition.
#include <cmath>
#include <complex>
#include <type_traits>

#include "aten/core/determinism.h"
#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/factory_kernels.h"

namespace flambeau::ops {
namespace {

template <typename T>
inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool is_whole = std::is_integral_v<T> || is_bool<T>;
// What positions are computed in: integers by double, halves by float.
template <typename T>
using Position = std::conditional_t<is_whole<T>, double, std::conditional_t<is_half<T>, float, T>>;

template <typename T, typename Value>
void generate(Tensor& out, const Value& value) {
  const Tensor dense = out.is_contiguous() ? out : empty_tensor(out.sizes(), out.dtype());
  T* data = dense.data_as<T>();
  parallel_for(0, out.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] = static_cast<T>(value(i));
  });
  if (!dense.is_same(out)) copy_into(out, dense);
}

// Counts from the nearer end, so that both ends are met exactly.
template <typename P>
struct Spacing {
  P start, end, step;
  int64_t steps;

  Spacing(const Scalar& from, const Scalar& to, int64_t n)
      : start(from.to<P>()),
        end(to.to<P>()),
        step(n > 1 ? (end - start) / P(static_cast<double>(n - 1)) : P(0)),
        steps(n) {}
  P at(int64_t i) const {
    return i < steps / 2 || steps == 1 ? start + step * P(static_cast<double>(i))
                                       : end - step * P(static_cast<double>(steps - 1 - i));
  }
};

// Integers take whole ends.
template <typename T>
Spacing<Position<T>> spacing_in(const Scalar& start, const Scalar& end, int64_t steps) {
  if constexpr (is_whole<T>) {
    return {start.to_int64(), end.to_int64(), steps};
  } else {
    return {start, end, steps};
  }
}

}  // namespace

void empty_cpu(IntArrayRef, std::optional<ScalarType>, std::optional<Layout>, std::optional<Device>,
               std::optional<bool>, std::optional<MemoryFormat>, Tensor& out) {
  settle_uninitialized(out);
}

void empty_strided_cpu(IntArrayRef, IntArrayRef, std::optional<ScalarType>, std::optional<Layout>,
                       std::optional<Device>, std::optional<bool>, Tensor& out) {
  settle_uninitialized(out);
}

void empty_like_cpu(const Tensor&, std::optional<ScalarType>, std::optional<Layout>,
                    std::optional<Device>, std::optional<bool>, std::optional<MemoryFormat>,
                    Tensor& out) {
  settle_uninitialized(out);
}

void settle_cpu(Tensor& self, int64_t begin) {
  settle_uninitialized(self, static_cast<size_t>(begin));
}

void zeros_cpu(IntArrayRef, std::optional<ScalarType>, std::optional<Layout>, std::optional<Device>,
               std::optional<bool>, Tensor& out) {
  fill_with(out, 0);
}

void ones_cpu(IntArrayRef, std::optional<ScalarType>, std::optional<Layout>, std::optional<Device>,
              std::optional<bool>, Tensor& out) {
  fill_with(out, 1);
}

void full_cpu(IntArrayRef, const Scalar& fill_value, std::optional<ScalarType>,
              std::optional<Layout>, std::optional<Device>, std::optional<bool>, Tensor& out) {
  fill_with(out, fill_value);
}

void zeros_like_cpu(const Tensor&, std::optional<ScalarType>, std::optional<Layout>,
                    std::optional<Device>, std::optional<bool>, std::optional<MemoryFormat>,
                    Tensor& out) {
  fill_with(out, 0);
}

void ones_like_cpu(const Tensor&, std::optional<ScalarType>, std::optional<Layout>,
                   std::optional<Device>, std::optional<bool>, std::optional<MemoryFormat>,
                   Tensor& out) {
  fill_with(out, 1);
}

void full_like_cpu(const Tensor&, const Scalar& fill_value, std::optional<ScalarType>,
                   std::optional<Layout>, std::optional<Device>, std::optional<bool>,
                   std::optional<MemoryFormat>, Tensor& out) {
  fill_with(out, fill_value);
}

void arange_cpu(const Scalar& start, const Scalar& end, const Scalar& step,
                std::optional<ScalarType>, std::optional<Layout>, std::optional<Device>,
                std::optional<bool>, Tensor& out) {
  check(!end.is_complex(), "arange: expected real numbers, got ", end);
  dispatch_types<ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16, ScalarType::Int32,
                 ScalarType::Int64, ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64,
                 ScalarType::Float16, ScalarType::BFloat16, ScalarType::Float32,
                 ScalarType::Float64>(out.dtype(), "arange", [&]<typename T>() {
    // Wider than the elements, so that the last of many does not drift.
    using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    const Wide first = start.to<Wide>(), by = step.to<Wide>();
    generate<T>(out, [=](int64_t i) { return first + by * static_cast<Wide>(i); });
  });
}

void linspace_cpu(const Scalar& start, const Scalar& end, int64_t steps, std::optional<ScalarType>,
                  std::optional<Layout>, std::optional<Device>, std::optional<bool>, Tensor& out) {
  dispatch_all(out.dtype(), "linspace", [&]<typename T>() {
    const auto spacing = spacing_in<T>(start, end, steps);
    generate<T>(out, [&](int64_t i) { return spacing.at(i); });
  });
}

void logspace_cpu(const Scalar& start, const Scalar& end, int64_t steps, double base,
                  std::optional<ScalarType>, std::optional<Layout>, std::optional<Device>,
                  std::optional<bool>, Tensor& out) {
  dispatch_all(out.dtype(), "logspace", [&]<typename T>() {
    const auto spacing = spacing_in<T>(start, end, steps);
    generate<T>(out, [&](int64_t i) {
      if constexpr (is_complex_v<T>) {
        const std::complex<double> x(spacing.at(i).re, spacing.at(i).im);
        const std::complex<double> y = std::pow(base, x);
        return complex<double>(y.real(), y.imag());
      } else {
        return std::pow(static_cast<Position<T>>(base), spacing.at(i));
      }
    });
  });
}

void eye_cpu(int64_t n, int64_t m, std::optional<ScalarType>, std::optional<Layout>,
             std::optional<Device>, std::optional<bool>, Tensor& out) {
  fill_with(out, 0);
  const int64_t count = std::min(n, m);
  if (count == 0) return;  // a side may be so long that the sum of strides overflows
  const int64_t along = out.stride(0) + out.stride(1);
  fill_with(plain_view(out, {IntArrayRef(count), IntArrayRef(along), out.storage_offset()}), 1);
}

}  // namespace flambeau::ops
