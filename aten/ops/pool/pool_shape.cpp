// Shapes and argument checks of pooling. Maxima keep the channels-last format; as in PyTorch, means
// and adaptive maxima keep it with two spatial dimensions only, or where a mean is of all places.
#include <algorithm>

#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/pool/windows.h"
#include "torchgen_out/aten/pool_kernels.h"

namespace flambeau::shape {
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
  check(input.size() == dims + 1 || input.size() == dims + 2, op, ": ",
        WrongRank{static_cast<int64_t>(dims) + 1, input});
  for (const int64_t n : output_size)
    check(n >= 0, op, ": expected output_size of 0 or more, got ", output_size);
  for (size_t d = input.size() - dims; d < input.size(); ++d) {
    check(input[d] > 0, op, ": ", EmptyDimension{input});
  }
}

// Channels last as the input is, unless that lacks the batch.
void keep_image_format(const Tensor& input, size_t dims, OutSpec* out) {
  if (input.sizes().size() == dims + 2) keep_format(input, out);
}

}  // namespace

void max_pool(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
              IntArrayRef dilation, bool ceil_mode, OutSpec* out) {
  const DimVector sizes = pool::fixed_sizes("max_pool", self.sizes(), kernel_size, stride, padding,
                                            dilation, ceil_mode);
  out[0] = {with_spatial(self, sizes), {}, self.dtype(), self.device()};
  keep_image_format(self, kernel_size.size(), out);
  out[1] = {out->sizes, out->strides, ScalarType::Int64, self.device()};
}

void max_pool_row(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                  IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, OutSpec* out) {
  check(kernel_size.size() == 1, "max_pool1d: expected a kernel_size of one value, got ",
        kernel_size);
  OutSpec both[2];
  max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, both);
  *out = both[0];
}

void max_pool_backward(const Tensor& grad_output, const Tensor& indices, IntArrayRef input_size,
                       int64_t dims, OutSpec* out) {
  const auto ndim = static_cast<int64_t>(input_size.size());
  check(dims >= 1 && dims <= 3 && ndim >= dims && grad_output.dim() == ndim,
        "max_pool_backward: expected a gradient of as many dimensions as the input, got ",
        grad_output, " for ", input_size);
  const auto lead = static_cast<size_t>(ndim - dims);
  check(
      grad_output.sizes() == indices.sizes() &&
          grad_output.sizes().slice(0, lead) == input_size.slice(0, lead),
      "max_pool_backward: expected a gradient and indices of the input's batch and channels, got ",
      grad_output, " and ", indices, " for ", input_size);
  check(indices.dtype() == ScalarType::Int64,
        "max_pool_backward: expected indices of type int64, got ", indices.dtype());
  sized(grad_output, input_size, out);
  keep_image_format(grad_output, static_cast<size_t>(dims), out);
}

void adaptive_max_pool(const Tensor& self, IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_max_pool", self.sizes(), output_size);
  out[0] = {with_spatial(self, output_size), {}, self.dtype(), self.device()};
  if (output_size.size() == 2) keep_image_format(self, 2, out);
  out[1] = {out->sizes, out->strides, ScalarType::Int64, self.device()};
}

void avg_pool(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
              bool ceil_mode, std::optional<int64_t> divisor_override, OutSpec* out) {
  check(divisor_override.value_or(1) != 0, "divisor must be not zero");
  const DimVector ones(kernel_size.size(), 1);
  const DimVector sizes =
      pool::fixed_sizes("avg_pool", self.sizes(), kernel_size, stride, padding, ones, ceil_mode);
  *out = {with_spatial(self, sizes), {}, self.dtype(), self.device()};
  if (kernel_size.size() == 2) keep_image_format(self, 2, out);
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
  if (kernel_size.size() == 2) keep_image_format(grad_output, 2, out);
}

void adaptive_avg_pool_backward(const Tensor& grad_output, IntArrayRef input_size,
                                IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_avg_pool_backward", input_size, output_size);
  check_grad_output("adaptive_avg_pool_backward", grad_output,
                    with_spatial(input_size, output_size));
  sized(grad_output, input_size, out);
  if (output_size.size() == 2) keep_image_format(grad_output, 2, out);
}

void adaptive_avg_pool(const Tensor& self, IntArrayRef output_size, OutSpec* out) {
  check_adaptive("adaptive_avg_pool", self.sizes(), output_size);
  *out = {with_spatial(self, output_size), {}, self.dtype(), self.device()};
  const bool to_pixels = std::ranges::all_of(output_size, [](int64_t n) { return n == 1; });
  if (output_size.size() == 2 || to_pixels) keep_image_format(self, output_size.size(), out);
}

}  // namespace flambeau::shape
