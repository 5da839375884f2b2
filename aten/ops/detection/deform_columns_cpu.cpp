// Columns of a deformable convolution, and back, on CPU.
// Formula: columns[n, c, t, l] = mask * input[n, c, place of tap t in window l + offset], bilinear.
// Pixels outside are 0.
// Accumulates in: the dtype; float32 for half.
// NaN, infinity: a place that is NaN or outside by 1 or more gives 0; NaN pixels spread to the
// columns that touch them.
// Error: 8 eps of the largest pixel.
// Source: Dai et al. 2017, "Deformable Convolutional Networks"; Zhu et al. 2019 (v2: the mask).
#include <cmath>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "c10/core/check.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/detection_kernels.h"

namespace flambeau {
namespace {

// Places are sums of two products of these with sizes of tensors, and fit an int64.
constexpr int64_t kMostStep = int64_t{1} << 24;

struct Deform {
  int64_t batch, channels, height, width, out_height, out_width, taps, kernel_width, groups;
  IntArrayRef stride, padding, dilation;
  bool use_mask;

  Deform(const Tensor& input, const Tensor& offset, IntArrayRef kernel, IntArrayRef strides,
         IntArrayRef paddings, IntArrayRef dilations, int64_t offset_groups, bool masked)
      : batch(input.size(0)),
        channels(input.size(1)),
        height(input.size(2)),
        width(input.size(3)),
        out_height(offset.size(2)),
        out_width(offset.size(3)),
        taps(kernel[0] * kernel[1]),
        kernel_width(kernel[1]),
        groups(offset_groups),
        stride(strides),
        padding(paddings),
        dilation(dilations),
        use_mask(masked) {
    for (const IntArrayRef values : {strides, paddings, dilations}) {
      for (const int64_t value : values) {
        check(value > -kMostStep && value < kMostStep, "deform_conv2d: expected strides, padding ",
              "and dilations below ", kMostStep, ", got ", value);
      }
    }
  }
  int64_t windows() const { return out_height * out_width; }
  int64_t group_of(int64_t channel) const { return channel / (channels / groups); }
  // Where offset and mask of one tap begin: [N, groups * taps (* 2), windows].
  int64_t tap_at(int64_t n, int64_t channel, int64_t tap) const {
    return (n * groups + group_of(channel)) * taps + tap;
  }
};

// The four pixels around a place, with weights, and whether each is inside the image.
template <typename Acc>
struct Corners {
  int64_t pixel[4];
  Acc y[2], x[2];  // weights of the lower and upper row and column
  bool inside[4];
  bool any = false;

  Corners(Acc row, Acc column, int64_t height, int64_t width) {
    any = row > Acc(-1) && column > Acc(-1) && row < static_cast<Acc>(height) &&
          column < static_cast<Acc>(width);
    if (!any) return;
    const auto top = static_cast<int64_t>(std::floor(row));
    const auto left = static_cast<int64_t>(std::floor(column));
    y[1] = row - static_cast<Acc>(top);
    x[1] = column - static_cast<Acc>(left);
    y[0] = Acc(1) - y[1];
    x[0] = Acc(1) - x[1];
    for (int i = 0; i < 4; ++i) {
      const int64_t r = top + i / 2, c = left + i % 2;
      inside[i] = r >= 0 && r < height && c >= 0 && c < width;
      pixel[i] = r * width + c;
    }
  }
  Acc weight(int i) const { return y[i / 2] * x[i % 2]; }
  // Derivatives of the weight by row and column.
  Acc by_row(int i) const { return (i / 2 ? x[i % 2] : -x[i % 2]); }
  Acc by_column(int i) const { return (i % 2 ? y[i / 2] : -y[i / 2]); }
};

template <typename T>
Corners<accumulate_t<T>> corners_of(const Deform& d, const T* offsets, int64_t at, int64_t tap,
                                    int64_t window) {
  using Acc = accumulate_t<T>;
  const int64_t l = d.windows();
  const int64_t row =
      window / d.out_width * d.stride[0] - d.padding[0] + tap / d.kernel_width * d.dilation[0];
  const int64_t column =
      window % d.out_width * d.stride[1] - d.padding[1] + tap % d.kernel_width * d.dilation[1];
  return {static_cast<Acc>(row) + static_cast<Acc>(offsets[2 * at * l + window]),
          static_cast<Acc>(column) + static_cast<Acc>(offsets[(2 * at + 1) * l + window]), d.height,
          d.width};
}

template <typename T, typename Acc>
Acc interpolated(const Corners<Acc>& corners, const T* plane) {
  Acc sum = 0;
  for (int i = 0; i < 4; ++i) {
    if (corners.inside[i]) sum += corners.weight(i) * static_cast<Acc>(plane[corners.pixel[i]]);
  }
  return sum;
}

// Where the gradients of one call go, in the accumulate type.
template <typename Acc>
struct Gradients {
  Acc *input, *offset, *mask;
};

// The part of one column's gradient.
template <typename T, typename Acc>
void spread(const Corners<Acc>& corners, Acc grad, Acc factor, const T* plane, Acc* to, Acc& row,
            Acc& column, Acc* mask) {
  if (!corners.any) return;
  for (int i = 0; i < 4; ++i) {
    if (!corners.inside[i]) continue;
    const auto value = static_cast<Acc>(plane[corners.pixel[i]]);
    to[corners.pixel[i]] += grad * factor * corners.weight(i);
    row += grad * factor * corners.by_row(i) * value;
    column += grad * factor * corners.by_column(i) * value;
  }
  if (mask != nullptr) *mask += grad * interpolated<T, Acc>(corners, plane);
}

template <typename T>
void backward_image(const Deform& d, int64_t n, const T* grads, const T* pixels, const T* offsets,
                    const T* masks, const Gradients<accumulate_t<T>>& to) {
  using Acc = accumulate_t<T>;
  const int64_t l = d.windows(), plane = d.height * d.width;
  for (int64_t c = 0; c < d.channels; ++c) {
    const int64_t image = (n * d.channels + c) * plane;
    for (int64_t t = 0; t < d.taps; ++t) {
      const int64_t at = d.tap_at(n, c, t);
      for (int64_t w = 0; w < l; ++w) {
        const auto corners = corners_of(d, offsets, at, t, w);
        const Acc factor = d.use_mask ? static_cast<Acc>(masks[at * l + w]) : Acc(1);
        const auto grad = static_cast<Acc>(grads[((n * d.channels + c) * d.taps + t) * l + w]);
        spread(corners, grad, factor, pixels + image, to.input + image, to.offset[2 * at * l + w],
               to.offset[(2 * at + 1) * l + w], d.use_mask ? to.mask + at * l + w : nullptr);
      }
    }
  }
}

}  // namespace

namespace ops {

void deform_columns_cpu(const Tensor& input, const Tensor& offset, const Tensor& mask,
                        IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                        IntArrayRef dilation, int64_t offset_groups, bool use_mask, Tensor& out) {
  if (out.numel() == 0) return;
  const Deform d(input, offset, kernel_size, stride, padding, dilation, offset_groups, use_mask);
  const Tensor image = contiguous_tensor(input), moved = contiguous_tensor(offset);
  const Tensor factors = contiguous_tensor(mask);
  const int64_t l = d.windows();
  dispatch_floating(input.dtype(), "deform_conv2d", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const T* pixels = image.data_as<T>();
    const T* offsets = moved.data_as<T>();
    const T* masks = factors.data_as<T>();
    T* to = out.data_as<T>();
    parallel_for(0, d.batch * d.channels, 16 * d.taps * l, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * d.taps * l; i < end * d.taps * l; ++i) {
        const int64_t w = i % l, t = i / l % d.taps, plane = i / l / d.taps;
        const int64_t at = d.tap_at(plane / d.channels, plane % d.channels, t);
        const auto corners = corners_of(d, offsets, at, t, w);
        Acc value = 0;
        if (corners.any) value = interpolated<T, Acc>(corners, pixels + plane * d.height * d.width);
        to[i] = static_cast<T>(d.use_mask ? value * static_cast<Acc>(masks[at * l + w]) : value);
      }
    });
  });
}

void deform_columns_backward_cpu(const Tensor& grad_output, const Tensor& input,
                                 const Tensor& offset, const Tensor& mask, IntArrayRef kernel_size,
                                 IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                 int64_t offset_groups, bool use_mask, Tensor& grad_input_out,
                                 Tensor& grad_offset_out, Tensor& grad_mask_out) {
  const Deform d(input, offset, kernel_size, stride, padding, dilation, offset_groups, use_mask);
  const Tensor grads = contiguous_tensor(grad_output), image = contiguous_tensor(input);
  const Tensor moved = contiguous_tensor(offset), factors = contiguous_tensor(mask);
  dispatch_floating(input.dtype(), "deform_conv2d", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const Tensor a = zeros_tensor(input.sizes(), scalar_type_of<Acc>);
    const Tensor b = zeros_tensor(offset.sizes(), scalar_type_of<Acc>);
    const Tensor c = zeros_tensor(mask.sizes(), scalar_type_of<Acc>);
    if (grad_output.numel() > 0) {
      const Gradients<Acc> to{a.data_as<Acc>(), b.data_as<Acc>(), c.data_as<Acc>()};
      parallel_for(0, d.batch, 64 * d.channels * d.taps * d.windows(),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t n = begin; n < end; ++n) {
                       backward_image<T>(d, n, grads.data_as<T>(), image.data_as<T>(),
                                         moved.data_as<T>(), factors.data_as<T>(), to);
                     }
                   });
    }
    copy_into(grad_input_out, a);
    copy_into(grad_offset_out, b);
    copy_into(grad_mask_out, c);
  });
}

}  // namespace ops
}  // namespace flambeau
