// Shapes and argument checks of convolutions.
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/conv/convolution.h"
#include "torchgen_out/aten/conv_kernels.h"

namespace flambeau::shape {
namespace {

void check_counts(const Tensor& input, IntArrayRef stride, IntArrayRef padding,
                  IntArrayRef dilation, IntArrayRef output_padding, bool transposed) {
  const auto dims = static_cast<size_t>(input.dim() - 2);
  const auto check_list = [&](const char* name, IntArrayRef list, int64_t least) {
    check(list.size() == dims || list.size() == 1, name, ": expected one number or a list of ",
          int64_t(dims), ", got ", list);
    for (const int64_t v : list)
      check(v >= least, "convolution: expected ", name, " >= ", least, ", got ", list);
  };
  check_list("stride", stride, 1);
  check_list("padding", padding, 0);
  check_list("dilation", dilation, 1);
  if (transposed) check_list("output_padding", output_padding, 0);
}

void check_operands(const Tensor& input, const Tensor& weight, const Tensor& bias, bool transposed,
                    int64_t groups) {
  check(weight.dim() >= 3 && weight.dim() <= 5,
        "convolution: expected a weight with 3 to 5 dimensions, got ", weight);
  check(input.dim() == weight.dim(), "Expected ", weight.dim(),
        "D input to convolution with weight ", weight, ", but got ", input);
  // PyTorch looks for a kernel of the input's dtype first, transposed ones are for floating types.
  const ScalarType type = input.dtype();
  if (type == ScalarType::Bool ||
      (transposed && type != ScalarType::Int64 && is_integral_type(type, true))) {
    fail_dtype("convolution", type);
  }
  check(input.dtype() == weight.dtype(), "expected input and weight of one dtype, got Input type (",
        input.dtype(), ") and weight type (", weight.dtype(), ")");
  check(!bias.defined() || bias.dtype() == input.dtype(), "Input type (", input.dtype(),
        ") and bias type (", bias.defined() ? bias.dtype() : input.dtype(), ") should be the same");
  check(groups > 0, "expected groups >= 1 (non-positive groups is not supported), got ", groups);
  const int64_t channels =
      transposed ? weight.size(0) : product_of("convolution", weight.size(1), groups);
  check(input.size(1) == channels, "Given groups=", groups, ", weight ", weight,
        ", expected input ", input, " to have ", channels, " channels, but got ", input.size(1),
        " channels instead");
  check(weight.size(0) % groups == 0,
        "expected groups that divide the output channels, got groups=", groups, " and a weight ",
        weight);
  const int64_t out_channels =
      transposed ? product_of("convolution", weight.size(1), groups) : weight.size(0);
  check(!bias.defined() || (bias.dim() == 1 && bias.size(0) == out_channels), "expected a bias of ",
        out_channels, " elements for a weight ", weight, ", got ", bias);
}

}  // namespace

void convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef strides,
                 IntArrayRef paddings, IntArrayRef dilations, bool transposed,
                 IntArrayRef output_paddings, int64_t groups, OutSpec* out) {
  check_operands(input, weight, bias, transposed, groups);
  check_counts(input, strides, paddings, dilations, output_paddings, transposed);
  const int64_t dims = input.dim() - 2;
  const DimVector stride = conv::per_dimension(strides, dims);
  const DimVector padding = conv::per_dimension(paddings, dims);
  const DimVector dilation = conv::per_dimension(dilations, dims);
  const DimVector output_padding = conv::per_dimension(output_paddings, dims);
  out->sizes = {input.size(0),
                transposed ? product_of("convolution", weight.size(1), groups) : weight.size(0)};
  for (size_t d = 0; d < stride.size(); ++d) {
    const int64_t in = input.sizes()[d + 2], kernel = weight.sizes()[d + 2];
    const int64_t room = window_room("convolution", in, kernel, padding[d], dilation[d]);
    int64_t size = room;
    if (transposed) {
      const int64_t margin = dilation[d] * (kernel - 1) - 2 * padding[d];
      const int64_t grown =
          sum_of("convolution", product_of("convolution", in - 1, stride[d]), margin);
      size = sum_of("convolution", grown, sum_of("convolution", output_padding[d], 1));
    }
    check(size >= 0, "expected a kernel that fits into the padded input, of ", in + 2 * padding[d],
          " elements per channel; got one that spans ", dilation[d] * (kernel - 1) + 1);
    out->sizes.push_back(transposed ? size : size / stride[d] + 1);
  }
  out->dtype = input.dtype();
  out->device = input.device();
  if (conv::is_channels_last(input, weight)) out->strides = channels_last_strides(out->sizes);
}

void convolution_backward(const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                          IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                          bool transposed, IntArrayRef output_padding, int64_t groups,
                          ArrayRef<bool> wanted, OutSpec* out) {
  OutSpec forward;
  convolution(input, weight, Tensor(), stride, padding, dilation, transposed, output_padding,
              groups, &forward);
  check_grad_output("convolution_backward", grad_output, forward.sizes);
  check(grad_output.dtype() == input.dtype(), "convolution_backward: expected grad_output of type ",
        input.dtype(), ", got ", grad_output.dtype());
  out[0] = {DimVector(input.sizes()), {}, input.dtype(), input.device(), wanted[0]};
  out[1] = {DimVector(weight.sizes()), {}, weight.dtype(), weight.device(), wanted[1]};
  if (!forward.strides.empty()) {
    for (size_t i = 0; i < 2; ++i) out[i].strides = channels_last_strides(out[i].sizes);
  }
  out[2] = {{grad_output.size(1)}, {}, weight.dtype(), weight.device(), wanted[2]};
}

}  // namespace flambeau::shape
