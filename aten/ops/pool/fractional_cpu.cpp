// Fractional max pooling on CPU. Indices are flat within the spatial dimensions.
// Formula: with a sample u in [0, 1) and a = (size - kernel) / (outputs - 1), window i begins at
// floor((i + u) a) - floor(u a), the last one at size - kernel; its maximum and place. Ties go to
// the first.
// Accumulates in: places in float32 (double for double); maxima: none, values are moved.
// NaN, infinity: NaN wins; infinities are ordered.
// Error: none: maxima are exact.
// Source: Graham 2014, "Fractional Max-Pooling".
#include <algorithm>
#include <array>
#include <limits>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/pool/pool_loops.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/pool_kernels.h"

namespace flambeau::ops {
namespace {

struct Axes {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

// The integer part; numbers beyond int32, infinities and NaN all give one value.
template <typename T>
int64_t whole(T x) {
  constexpr T kLimit = 2147483648;
  return x > -kLimit && x < kLimit ? static_cast<int64_t>(x) : std::numeric_limits<int32_t>::min();
}

// Samples are drawn from [0, 1). Others give windows too, which are moved into the plane.
template <typename T>
std::vector<int64_t> starts(T sample, int64_t in, int64_t out, int64_t kernel) {
  std::vector<int64_t> begin(static_cast<size_t>(out), in - kernel);
  if (out <= 1) return begin;
  const T step = static_cast<T>(in - kernel) / static_cast<T>(out - 1);
  for (int64_t i = 0; i + 1 < out; ++i) {
    const int64_t start = whole((static_cast<T>(i) + sample) * step) - whole(sample * step);
    begin[static_cast<size_t>(i)] = std::clamp<int64_t>(start, 0, in - kernel);
  }
  return begin;
}

template <typename T>
int64_t best_place(const Axes& axes, const T* plane, int64_t x, int64_t y, int64_t z) {
  int64_t best = -1;
  for (int64_t i = x; i < x + axes.kernel[0]; ++i) {
    for (int64_t j = y; j < y + axes.kernel[1]; ++j) {
      for (int64_t k = z; k < z + axes.kernel[2]; ++k) {
        const int64_t at = (i * axes.in[1] + j) * axes.in[2] + k;
        const T value = plane[at];
        if (best < 0 || pool::takes_place(value, plane[best])) best = at;
      }
    }
  }
  return best;
}

template <typename T>
void pool_plane(const Axes& axes, const std::array<std::vector<int64_t>, 3>& begin, const T* plane,
                T* values, int64_t* places) {
  for (const int64_t x : begin[0]) {
    for (const int64_t y : begin[1]) {
      for (const int64_t z : begin[2]) {
        *places = best_place(axes, plane, x, y, z);
        *values++ = plane[*places++];
      }
    }
  }
}

}  // namespace

void fractional_max_pool_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                             const Tensor& random_samples, Tensor& values, Tensor& indices) {
  if (values.numel() == 0) return;
  const size_t dims = kernel_size.size(), lead = self.sizes().size() - dims;
  Axes axes;
  for (size_t d = 0; d < dims; ++d) {
    axes.in[3 - dims + d] = self.sizes()[lead + d];
    axes.out[3 - dims + d] = output_size[d];
    axes.kernel[3 - dims + d] = kernel_size[d];
  }
  const Tensor in = contiguous_tensor(self);
  dispatch_floating(self.dtype(), "fractional_max_pool", [&]<typename T>() {
    using Place = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Tensor samples = contiguous_tensor(cast_tensor(random_samples, scalar_type_of<Place>));
    parallel_for(0, in.numel() / axes.in_size(), axes.in_size(), [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const Place* u = samples.data_as<Place>() + p * static_cast<int64_t>(dims);
        std::array<std::vector<int64_t>, 3> begin{{{0}, {0}, {0}}};
        for (size_t d = 0; d < dims; ++d) {
          // PyTorch's samples of images begin with the width's.
          const Place sample = u[dims == 2 ? 1 - d : d];
          const size_t at = 3 - dims + d;
          begin[at] = starts(sample, axes.in[at], axes.out[at], axes.kernel[at]);
        }
        pool_plane(axes, begin, in.data_as<T>() + p * axes.in_size(),
                   values.data_as<T>() + p * axes.out_size(),
                   indices.data_as<int64_t>() + p * axes.out_size());
      }
    });
  });
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void fractional_max_pool(const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                         const Tensor& random_samples, OutSpec* out) {
  const auto dims = static_cast<int64_t>(kernel_size.size());
  check((dims == 2 || dims == 3) && output_size.size() == kernel_size.size(),
        "fractional_max_pool: expected kernel_size and output_size of 2 or 3 values, got ",
        kernel_size, " and ", output_size);
  check(self.dim() == dims + 1 || self.dim() == dims + 2, "fractional_max_pool", dims,
        "d(): ", WrongRank{static_cast<int64_t>(dims) + 1, self.sizes()});
  for (int64_t d = self.dim() == dims + 1 ? 0 : 1; d < self.dim(); ++d) {
    check(self.size(d) > 0, "fractional_max_pool", dims, "d(): ", EmptyDimension{self.sizes()});
  }
  const int64_t batch = self.dim() == dims + 1 ? 1 : self.size(0);
  const int64_t wanted[] = {batch, self.size(-dims - 1), dims};
  check(random_samples.sizes() == IntArrayRef(wanted),
        "fractional_max_pool: Expect _random_samples of shape ", IntArrayRef(wanted), ", got ",
        random_samples);
  check(random_samples.dtype() == self.dtype(),
        "fractional_max_pool: expected _random_samples of the input's dtype ", self.dtype(),
        ", got ", random_samples.dtype());
  DimVector sizes(self.sizes());
  for (int64_t d = 0; d < dims; ++d) {
    const auto at = static_cast<size_t>(self.dim() - dims + d), i = static_cast<size_t>(d);
    check(output_size[i] >= 0 && kernel_size[i] > 0, "fractional_max_pool", dims,
          "d: expected output_size >= 0 and kernel_size > 0, got ", output_size, " and ",
          kernel_size);
    // As in PyTorch, windows of volumes cannot begin at each place.
    const int64_t most = sizes[at] - (dims == 3 ? 1 : 0);
    check(output_size[i] <= most - kernel_size[i] + 1, "fractional_max_pool", dims,
          "d(): expected windows that fit into input size ", sizes[at], ", got kernel_size ",
          kernel_size[i], " and output_size ", output_size[i], " (too large)");
    sizes[at] = output_size[i];
  }
  out[0] = {sizes, {}, self.dtype(), self.device()};
  out[1] = {sizes, {}, ScalarType::Int64, self.device()};
}

}  // namespace flambeau::shape
