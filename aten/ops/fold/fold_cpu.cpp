// Windows of images as columns, and back, on CPU.
// Formula:
//   columns[n, c * k + t, l] = self[n, c, place of element t in window l], 0 in the padding.
//   The way back sums the elements of all windows that lie on the same place.
// Accumulates in: im2col: none, values are moved; col2im: the accumulate type, float32 for half
// types.
// NaN, infinity: im2col moves them; col2im's sums follow IEEE arithmetic.
// Error: im2col is exact; col2im: n eps of the sum of magnitudes of the n elements on a place.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/fold_kernels.h"

namespace flambeau {
namespace {

struct Windows {
  int64_t in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
  Windows(const char* op, IntArrayRef image, IntArrayRef kernels, IntArrayRef dilations,
          IntArrayRef paddings, IntArrayRef strides) {
    check(kernels.size() == 2 && dilations.size() == 2 && paddings.size() == 2 &&
              strides.size() == 2 && image.size() == 2,
          op, ": expected 2 numbers in each size argument, got kernel_size ", kernels,
          ", dilation ", dilations, ", padding ", paddings, " and stride ", strides);
    for (size_t d = 0; d < 2; ++d) {
      in[d] = image[d];
      kernel[d] = kernels[d], dilation[d] = dilations[d];
      padding[d] = paddings[d], stride[d] = strides[d];
      check(kernel[d] > 0, op, ": expected kernels of positive sizes, got ", kernels);
      check(dilation[d] > 0, op, ": expected positive dilations, got ", dilations);
      check(padding[d] >= 0, op, ": expected padding of 0 or more, got ", paddings);
      check(stride[d] > 0, op, ": expected positive strides, got ", strides);
      const int64_t room = window_room(op, in[d], kernel[d], padding[d], dilation[d]);
      out[d] = room < 0 ? 0 : room / stride[d] + 1;
    }
  }
  int64_t taps() const { return product_of("kernel_size", kernel[0], kernel[1]); }
  int64_t count() const { return product_of("windows", out[0], out[1]); }

  // For element t of the windows, body(first place in the image, first window, number of windows)
  // for each row of windows that meets the image; windows of a row are stride[1] places apart.
  template <typename Body>
  void for_each_row(int64_t t, const Body& body) const {
    const int64_t up = t / kernel[1] * dilation[0] - padding[0];
    const int64_t left = t % kernel[1] * dilation[1] - padding[1];
    const int64_t first = left < 0 ? (-left - 1) / stride[1] + 1 : 0;
    const int64_t end = std::min(out[1], left >= in[1] ? 0 : (in[1] - 1 - left) / stride[1] + 1);
    for (int64_t i = 0; i < out[0]; ++i) {
      const int64_t y = i * stride[0] + up;
      if (y < 0 || y >= in[0] || end <= first) continue;
      body(y * in[1] + first * stride[1] + left, i * out[1] + first, end - first);
    }
  }
};

IntArrayRef image_of(const Tensor& t) { return t.sizes().slice(2, 2); }

}  // namespace

namespace ops {

void im2col_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation,
                IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  if (out.numel() == 0) return;
  const Windows w("im2col", image_of(self), kernel_size, dilation, padding, stride);
  const Tensor in = contiguous_tensor(self);
  const int64_t taps = w.taps(), image = w.in[0] * w.in[1];
  dispatch_all(in.dtype(), "im2col", [&]<typename T>() {
    parallel_for(0, out.size(0) * out.size(1), w.count(), [&](int64_t begin, int64_t end) {
      for (int64_t column = begin; column < end; ++column) {
        const T* from = in.data_as<T>() + column / taps * image;
        T* to = out.data_as<T>() + column * w.count();
        std::fill_n(to, w.count(), T(0));
        w.for_each_row(column % taps, [&](int64_t place, int64_t window, int64_t n) {
          for (int64_t j = 0; j < n; ++j) to[window + j] = from[place + j * w.stride[1]];
        });
      }
    });
  });
}

void col2im_cpu(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size,
                IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  const Windows w("col2im", output_size, kernel_size, dilation, padding, stride);
  const Tensor in = contiguous_tensor(self);
  const int64_t taps = w.taps(), image = w.in[0] * w.in[1];
  dispatch_floating_complex(in.dtype(), "col2im", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    parallel_for(
        0, out.size(0) * out.size(1), taps * w.count() + image, [&](int64_t begin, int64_t end) {
          std::vector<Acc> sums(static_cast<size_t>(image));
          for (int64_t plane = begin; plane < end; ++plane) {
            std::ranges::fill(sums, Acc(0));
            for (int64_t t = 0; t < taps; ++t) {
              const T* from = in.data_as<T>() + (plane * taps + t) * w.count();
              w.for_each_row(t, [&](int64_t place, int64_t window, int64_t n) {
                Acc* to = sums.data() + place;
                for (int64_t j = 0; j < n; ++j) to[j * w.stride[1]] += Acc(from[window + j]);
              });
            }
            for (int64_t i = 0; i < image; ++i)
              out.data_as<T>()[plane * image + i] = static_cast<T>(sums[static_cast<size_t>(i)]);
          }
        });
  });
}

}  // namespace ops

namespace shape {

void im2col(const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation, IntArrayRef padding,
            IntArrayRef stride, OutSpec* out) {
  check(
      self.dim() == 4 && self.size(1) > 0 && self.size(2) > 0 && self.size(3) > 0,
      "unfold: expected shape (C, H, W) or (N, C, H, W), empty in no dimension but the batch, got ",
      self);
  const Windows w("im2col", image_of(self), kernel_size, dilation, padding, stride);
  check(w.count() > 0, "unfold: expected windows that fit into (", w.in[0], ", ", w.in[1],
        "), got kernel_size=", kernel_size, ", dilation=", dilation, ", padding=", padding,
        ", whose array of sliding blocks has shape (", w.out[0], ", ", w.out[1], ")");
  *out = {{self.size(0), product_of("im2col", self.size(1), w.taps()), w.count()},
          {},
          self.dtype(),
          self.device()};
}

void col2im(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size,
            IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride, OutSpec* out) {
  check(self.dim() == 3 && self.size(1) > 0 && self.size(2) > 0,
        "fold: expected shape (rows, blocks) or (N, rows, blocks), empty in no dimension but the "
        "batch, got ",
        self);
  const Windows w("col2im", output_size, kernel_size, dilation, padding, stride);
  check(self.size(1) % w.taps() == 0,
        "fold: expected a multiple of the kernel's elements as rows, got kernel_size ", kernel_size,
        " and ", self);
  check(w.count() > 0 && w.count() == self.size(2), "fold: expected as many columns as the number",
        " of sliding blocks, ", w.out[0], " * ", w.out[1], ", of output_size=", output_size,
        " with kernel_size=", kernel_size, ", dilation=", dilation, ", padding=", padding,
        ", stride=", stride, "; got ", self);
  *out = {{self.size(0), self.size(1) / w.taps(), output_size[0], output_size[1]},
          {},
          self.dtype(),
          self.device()};
}

}  // namespace shape
}  // namespace flambeau
