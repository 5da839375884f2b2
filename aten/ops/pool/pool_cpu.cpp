// Pooling on CPU over the last 1 to 3 dimensions. Maxima: NaN wins, ties go to the first; the
// indices are flat within the spatial dimensions. Means of the half types are summed in float32,
// those of float32 mostly in float64.
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/pool/windows.h"
#include "c10/core/isa.h"
#include "torchgen_out/aten/pool_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(pool::MeanLoop, pool_mean)

namespace ops {
namespace {

using pool::Divisor;

void run_max(const pool::Geometry& g, const Tensor& self, Tensor& out, Tensor& indices) {
  const Tensor in = contiguous_tensor(self);
  dispatch_ordered(in.dtype(), "max_pool", [&]<typename T>() {
    parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const T* plane = in.data_as<T>() + p * g.in_size();
        T* values = out.data_as<T>() + p * g.out_size();
        int64_t* places = indices.data_as<int64_t>() + p * g.out_size();
        pool::for_each_window(g, [&](int64_t o, const auto& a, const auto& b, const auto& c) {
          // Without branches, which data would decide at random.
          int64_t best = (a.begin * g.in[1] + b.begin) * g.in[2] + c.begin;
          pool::for_each_place(g, a, b, c, [&](int64_t i) {
            const T x = plane[i], top = plane[best];
            const bool better = (x > top) | ((x != x) & (top == top));
            best ^= (best ^ i) & -static_cast<int64_t>(better);
          });
          values[o] = plane[best];
          places[o] = best;
        });
      }
    });
  });
}

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, float>, double, accumulate_t<T>>;

pool::MeanType mean_type(ScalarType dtype) {
  switch (compute_type(dtype)) {
    case ScalarType::Float32:
      return pool::kMeanFloat;
    case ScalarType::Float64:
      return pool::kMeanDouble;
    case ScalarType::Int64:
      return pool::kMeanInt64;
    default:
      fail_dtype("avg_pool", dtype);
  }
}

void run_mean(const pool::Geometry& g, const Divisor& divisor, const Tensor& self, Tensor& out) {
  static const pool::MeanLoop* const tables[] = FLAMBEAU_ALL_LOOPS(pool_mean);
  const pool::MeanLoop loop = tables[cpu_isa()][mean_type(self.dtype())];
  const ScalarType compute = compute_type(self.dtype());
  const Tensor in = contiguous_tensor(cast_tensor(self, compute));
  const bool direct = out.dtype() == compute && out.is_contiguous();
  const Tensor to = direct ? out : empty_tensor(out.sizes(), compute);
  const auto width = static_cast<int64_t>(element_size(compute));
  const pool::Windows windows = g.windows();
  parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
    std::vector<double> scratch(static_cast<size_t>(2 * g.in[2]));
    loop(windows, divisor, last - first,
         static_cast<const char*>(in.data()) + first * g.in_size() * width,
         static_cast<char*>(to.data()) + first * g.out_size() * width, scratch.data());
  });
  if (!direct) copy_into(out, to);
}

void run_mean_backward(const pool::Geometry& g, const Divisor& divisor, const Tensor& grad,
                       Tensor& grad_input) {
  const Tensor in = contiguous_tensor(grad);
  fill_with(grad_input, Scalar(0));
  dispatch_floating(in.dtype(), "avg_pool_backward", [&]<typename T>() {
    parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const T* values = in.data_as<T>() + p * g.out_size();
        T* plane = grad_input.data_as<T>() + p * g.in_size();
        pool::for_each_window(g, [&](int64_t o, const auto& a, const auto& b, const auto& c) {
          const auto share =
              static_cast<Sum<T>>(values[o]) / static_cast<Sum<T>>(divisor.of(a, b, c));
          pool::for_each_place(g, a, b, c,
                               [&](int64_t i) { plane[i] = static_cast<T>(plane[i] + share); });
        });
      }
    });
  });
}

IntArrayRef spatial(const Tensor& t, IntArrayRef like) {
  return t.sizes().slice(t.sizes().size() - like.size(), like.size());
}

}  // namespace

void max_pool_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                  IntArrayRef padding, IntArrayRef dilation, bool, Tensor& out, Tensor& indices) {
  if (out.numel() == 0) return;
  run_max(pool::fixed(self.sizes(), out.sizes(), kernel_size, stride, padding, dilation), self, out,
          indices);
}

void adaptive_max_pool_cpu(const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor& indices) {
  if (out.numel() == 0) return;
  run_max(pool::adaptive(self.sizes(), output_size), self, out, indices);
}

void avg_pool_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                  IntArrayRef padding, bool, bool count_include_pad,
                  std::optional<int64_t> divisor_override, Tensor& out) {
  if (out.numel() == 0) return;
  const DimVector ones(kernel_size.size(), 1);
  const pool::Geometry g =
      pool::fixed(self.sizes(), spatial(out, kernel_size), kernel_size, stride, padding, ones);
  run_mean(g, {count_include_pad, divisor_override.value_or(0)}, self, out);
}

void avg_pool_backward_cpu(const Tensor& grad, IntArrayRef input_size, IntArrayRef kernel_size,
                           IntArrayRef stride, IntArrayRef padding, bool, bool count_include_pad,
                           std::optional<int64_t> divisor_override, Tensor& out) {
  const DimVector ones(kernel_size.size(), 1);
  const pool::Geometry g =
      pool::fixed(input_size, spatial(grad, kernel_size), kernel_size, stride, padding, ones);
  run_mean_backward(g, {count_include_pad, divisor_override.value_or(0)}, grad, out);
}

void adaptive_avg_pool_cpu(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  if (out.numel() == 0) return;
  run_mean(pool::adaptive(self.sizes(), output_size), {}, self, out);
}

void adaptive_avg_pool_backward_cpu(const Tensor& grad, IntArrayRef input_size,
                                    IntArrayRef output_size, Tensor& out) {
  run_mean_backward(pool::adaptive(input_size, output_size), {}, grad, out);
}

}  // namespace ops

namespace shape {
namespace {

DimVector with_spatial(IntArrayRef input, IntArrayRef spatial) {
  DimVector sizes(input.slice(0, input.size() - spatial.size()));
  for (const int64_t n : spatial) sizes.push_back(n);
  return sizes;
}
DimVector with_spatial(const Tensor& self, IntArrayRef spatial) {
  return with_spatial(self.sizes(), spatial);
}

void check_adaptive(const char* op, IntArrayRef input, IntArrayRef output_size) {
  const size_t dims = output_size.size();
  check(dims >= 1 && dims <= 3, op, ": expected an output_size of 1 to 3 values, got ",
        output_size);
  check(input.size() == dims + 1 || input.size() == dims + 2, op, ": Expected ", dims + 1, "D or ",
        dims + 2, "D tensor, but got ", input);
  for (const int64_t n : output_size)
    check(n >= 0, op, ": elements of output_size must be greater than or equal to 0, got ",
          output_size);
  for (size_t d = input.size() - dims; d < input.size(); ++d) {
    check(input[d] > 0, op,
          ": Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
          input);
  }
}

}  // namespace

void max_pool(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
              IntArrayRef dilation, bool ceil_mode, OutSpec* out) {
  const DimVector sizes = pool::fixed_sizes("max_pool", self.sizes(), kernel_size, stride, padding,
                                            dilation, ceil_mode);
  out[0] = {with_spatial(self, sizes), {}, self.dtype(), self.device()};
  out[1] = {with_spatial(self, sizes), {}, ScalarType::Int64, self.device()};
}

void adaptive_max_pool(const Tensor& self, IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_max_pool", self.sizes(), output_size);
  out[0] = {with_spatial(self, output_size), {}, self.dtype(), self.device()};
  out[1] = {with_spatial(self, output_size), {}, ScalarType::Int64, self.device()};
}

void avg_pool(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
              bool ceil_mode, std::optional<int64_t> divisor_override, OutSpec* out) {
  check(divisor_override.value_or(1) != 0, "divisor must be not zero");
  const DimVector ones(kernel_size.size(), 1);
  const DimVector sizes =
      pool::fixed_sizes("avg_pool", self.sizes(), kernel_size, stride, padding, ones, ceil_mode);
  *out = {with_spatial(self, sizes), {}, self.dtype(), self.device()};
}

void avg_pool_backward(const Tensor& grad_output, IntArrayRef input_size, IntArrayRef kernel_size,
                       IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                       std::optional<int64_t> divisor_override, OutSpec* out) {
  check(divisor_override.value_or(1) != 0, "divisor must be not zero");
  const DimVector ones(kernel_size.size(), 1);
  const DimVector sizes = pool::fixed_sizes("avg_pool_backward", input_size, kernel_size, stride,
                                            padding, ones, ceil_mode);
  check_grad_output("avg_pool_backward", grad_output, with_spatial(input_size, sizes));
  sized(grad_output, input_size, out);
}

void adaptive_avg_pool_backward(const Tensor& grad_output, IntArrayRef input_size,
                                IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_avg_pool_backward", input_size, output_size);
  check_grad_output("adaptive_avg_pool_backward", grad_output,
                    with_spatial(input_size, output_size));
  sized(grad_output, input_size, out);
}

void adaptive_avg_pool(const Tensor& self, IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_avg_pool", self.sizes(), output_size);
  *out = {with_spatial(self, output_size), {}, self.dtype(), self.device()};
}

}  // namespace shape
}  // namespace flambeau
