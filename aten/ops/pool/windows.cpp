#include "aten/ops/pool/windows.h"

#include <algorithm>

#include "aten/core/messages.h"
#include "aten/core/shape.h"

namespace flambeau::pool {
namespace {

Geometry start(IntArrayRef input, size_t dims) {
  Geometry g;
  const size_t lead = input.size() - dims;
  g.batched = lead == 2;
  for (size_t d = 0; d < lead; ++d) g.planes *= input[d];
  for (size_t d = 0; d < dims; ++d) g.in[3 - dims + d] = input[lead + d];
  for (size_t d = 0; d < 3 - dims; ++d) g.ranges[d] = {{0, 1, 1, 1}};
  return g;
}

}  // namespace

DimVector fixed_sizes(const char* op, IntArrayRef input, IntArrayRef kernel, IntArrayRef stride,
                      IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const size_t dims = kernel.size();
  check(dims >= 1 && dims <= 3, op, ": expected a kernel_size of 1 to 3 values, got ", kernel);
  check(input.size() == dims + 1 || input.size() == dims + 2, op, ": ",
        WrongRank{int64_t(dims + 1), input});
  check(stride.size() == dims && padding.size() == dims && dilation.size() == dims, op,
        ": expected kernel_size, stride, padding and dilation of ", int64_t(dims), " values, got ",
        kernel, ", ", stride, ", ", padding, " and ", dilation);
  for (size_t d = input.size() - dims - 1; d < input.size(); ++d) {
    check(input[d] > 0, op, ": Expected ", int64_t(dims + 1), "D or ", int64_t(dims + 2),
          "D input that is empty in its batch dimension at most, got ", input);
  }
  DimVector out;
  for (size_t d = 0; d < dims; ++d) {
    check(kernel[d] > 0, op, ": expected a positive kernel_size, got ", kernel);
    check(stride[d] > 0, op, ": expected a positive stride, got ", stride);
    check(dilation[d] > 0, op, ": expected a positive dilation, got ", dilation);
    check(padding[d] >= 0, op, ": expected padding of 0 or more, got ", padding[d]);
    const int64_t extent = sum_of(op, product_of(op, dilation[d], kernel[d] - 1), 1);
    check(padding[d] <= extent / 2, op,
          ": expected padding of at most half the kernel's extent, got padding=", padding[d],
          ", kernel_size=", kernel[d], " and dilation=", dilation[d]);
    const int64_t in = input[input.size() - dims + d];
    const int64_t room = window_room(op, in, kernel[d], padding[d], dilation[d]);
    int64_t size = room < 0 ? 0 : room / stride[d] + 1;
    // With ceil_mode one more window that starts inside the input or the padding before it.
    const bool rest = room >= 0 && room % stride[d] != 0;
    if (ceil_mode && rest && (in + padding[d] - 1) / stride[d] >= size) ++size;
    check(size > 0, op, ": Given input size: ", input, ". Calculated output size: ", size,
          ". Output size is too small");
    out.push_back(size);
  }
  return out;
}

Geometry fixed(IntArrayRef input, IntArrayRef out, IntArrayRef kernel, IntArrayRef stride,
               IntArrayRef padding, IntArrayRef dilation) {
  const size_t dims = kernel.size();
  Geometry g = start(input, dims);
  for (size_t d = 0; d < dims; ++d) {
    const size_t at = 3 - dims + d;
    const int64_t in = g.in[at];
    for (int64_t o = 0; o < out[out.size() - dims + d]; ++o) {
      const int64_t first = o * stride[d] - padding[d];
      const int64_t last = first + dilation[d] * (kernel[d] - 1) + 1;
      const int64_t padded = std::min(first + kernel[d], in + padding[d]) - first;
      const int64_t skipped =
          first < 0 ? (-first + dilation[d] - 1) / dilation[d] * dilation[d] : 0;
      g.ranges[at].push_back({first + skipped, std::min(last, in), dilation[d], padded});
    }
  }
  return g;
}

Geometry adaptive(IntArrayRef input, IntArrayRef out) {
  const size_t dims = out.size();
  Geometry g = start(input, dims);
  for (size_t d = 0; d < dims; ++d) {
    const size_t at = 3 - dims + d;
    const int64_t in = g.in[at];
    for (int64_t o = 0; o < out[d]; ++o) {
      const int64_t begin = o * in / out[d];
      const int64_t end = ((o + 1) * in + out[d] - 1) / out[d];
      g.ranges[at].push_back({begin, end, 1, end - begin});
    }
  }
  return g;
}

}  // namespace flambeau::pool
