// Shapes of detection's operators.
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "c10/core/check.h"
#include "torchgen_out/aten/detection_kernels.h"

namespace flambeau::shape {
namespace {

void check_regions(const char* op, const Tensor& values, const Tensor& rois, int64_t pooled_height,
                   int64_t pooled_width) {
  check(values.dim() == 4, op, ": expected features of 4 dimensions [N, C, H, W], got ", values);
  check(rois.dim() == 2 && rois.size(1) == 5, op, ": expected rois of shape [K, 5], got ", rois);
  check(values.dtype() == rois.dtype(), op, ": expected features and rois of the same type, got ",
        values, " and ", rois);
  check(pooled_height >= 0 && pooled_width >= 0, op, ": expected a pooled size of 0 or more, got ",
        pooled_height, " x ", pooled_width);
  product_of(op, pooled_height, pooled_width);
  product_of(op, values.size(2), values.size(3));
}

// A matrix of gradients may be empty while the sizes that it is spread over are not.
void check_image(const char* op, int64_t batch_size, int64_t channels, int64_t height,
                 int64_t width) {
  check(batch_size >= 0 && channels >= 0 && height >= 0 && width >= 0, op,
        ": expected sizes of 0 or more, got [", batch_size, ", ", channels, ", ", height, ", ",
        width, "]");
  product_of(op, height, width);
}

void check_gradient(const Tensor& grad_output, const Tensor& rois, int64_t pooled_height,
                    int64_t pooled_width, int64_t channels) {
  check_regions("roi_backward", grad_output, rois, pooled_height, pooled_width);
  check(grad_output.size(0) == rois.size(0) && grad_output.size(1) == channels &&
            grad_output.size(2) == pooled_height && grad_output.size(3) == pooled_width,
        "roi_backward: expected a gradient for each bin of each region and channel, got ",
        grad_output);
}

void pooled_with_index(const Tensor& input, const Tensor& rois, int64_t channels, int64_t height,
                       int64_t width, OutSpec* out) {
  sized(input, {rois.size(0), channels, height, width}, out);
  sized(input, {rois.size(0), channels, height, width}, ScalarType::Int32, out + 1);
}

}  // namespace

void roi_align(const Tensor& input, const Tensor& rois, int64_t pooled_height, int64_t pooled_width,
               OutSpec* out) {
  check_regions("roi_align", input, rois, pooled_height, pooled_width);
  sized(input, {rois.size(0), input.size(1), pooled_height, pooled_width}, out);
}

void roi_pool(const Tensor& input, const Tensor& rois, int64_t pooled_height, int64_t pooled_width,
              OutSpec* out) {
  check_regions("roi_pool", input, rois, pooled_height, pooled_width);
  check(input.size(2) * input.size(3) <= INT32_MAX,
        "roi_pool: expected planes whose places fit an int32, got ", input);
  pooled_with_index(input, rois, input.size(1), pooled_height, pooled_width, out);
}

void ps_roi(const Tensor& input, const Tensor& rois, int64_t pooled_height, int64_t pooled_width,
            OutSpec* out) {
  check_regions("ps_roi", input, rois, pooled_height, pooled_width);
  const int64_t bins = pooled_height * pooled_width;
  check(bins > 0 && input.size(1) % bins == 0,
        "ps_roi: expected channels that are a multiple of pooling height * pooling width, ",
        pooled_height, " * ", pooled_width, ", got ", input);
  pooled_with_index(input, rois, input.size(1) / bins, pooled_height, pooled_width, out);
}

void roi_backward(const Tensor& grad_output, const Tensor& rois, int64_t pooled_height,
                  int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height,
                  int64_t width, OutSpec* out) {
  check_gradient(grad_output, rois, pooled_height, pooled_width, channels);
  check_image("roi_backward", batch_size, channels, height, width);
  sized(grad_output, {batch_size, channels, height, width}, out);
}

void ps_roi_backward(const Tensor& grad_output, const Tensor& rois, int64_t pooled_height,
                     int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height,
                     int64_t width, OutSpec* out) {
  const int64_t bins = product_of("ps_roi_backward", pooled_height, pooled_width);
  check(bins > 0 && channels % bins == 0, "ps_roi_backward: expected channels that ", bins,
        " bins divide, got ", channels);
  check_gradient(grad_output, rois, pooled_height, pooled_width, channels / bins);
  check_image("ps_roi_backward", batch_size, channels, height, width);
  sized(grad_output, {batch_size, channels, height, width}, out);
}

void deform_columns(const Tensor& input, const Tensor& offset, const Tensor& mask,
                    IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                    IntArrayRef dilation, int64_t offset_groups, bool use_mask, OutSpec* out) {
  const char* op = "deform_conv2d";
  check(input.dim() == 4 && offset.dim() == 4, op,
        ": expected input and offset of 4 dimensions, got ", input, " and ", offset);
  check(input.dtype() == offset.dtype() && input.dtype() == mask.dtype(), op,
        ": expected arguments of the same type, got ", input, ", ", offset, " and ", mask);
  for (const IntArrayRef pair : {kernel_size, stride, padding, dilation})
    check(pair.size() == 2, op, ": expected two numbers for each of kernel size, stride, padding ",
          "and dilation, got ", pair);
  check(kernel_size[0] >= 0 && kernel_size[1] >= 0, op,
        ": expected a kernel of size 0 or more, got ", kernel_size);
  check(offset_groups > 0 && input.size(1) % offset_groups == 0, op, ": expected channels that ",
        offset_groups, " offset groups divide, got ", input);
  const int64_t taps = product_of(op, kernel_size[0], kernel_size[1]), n = input.size(0);
  const int64_t moves = product_of(op, offset_groups, taps);
  const bool fits = offset.size(0) == n && offset.size(1) == product_of(op, 2, moves);
  check(fits, op, ": offset.shape[1] is not valid: expected ", 2 * moves, " for ", n,
        " images, got ", offset);
  const bool masks =
      !use_mask || (mask.dim() == 4 && mask.size(0) == n && mask.size(1) == moves &&
                    mask.size(2) == offset.size(2) && mask.size(3) == offset.size(3));
  check(masks, op, ": mask.shape[1] is not valid: expected ", moves,
        " and the size of offset, got ", mask);
  product_of(op, input.size(2), input.size(3));
  sized(input, {n, input.size(1), taps, product_of(op, offset.size(2), offset.size(3))}, out);
}

void deform_columns_backward(const Tensor& grad_output, const Tensor& input, const Tensor& offset,
                             const Tensor& mask, IntArrayRef kernel_size, IntArrayRef stride,
                             IntArrayRef padding, IntArrayRef dilation, int64_t offset_groups,
                             bool use_mask, OutSpec* out) {
  deform_columns(input, offset, mask, kernel_size, stride, padding, dilation, offset_groups,
                 use_mask, out);
  check_grad_output("deform_conv2d", grad_output, out->sizes);
  like(input, out);
  like(offset, out + 1);
  like(mask, out + 2);
}

}  // namespace flambeau::shape
