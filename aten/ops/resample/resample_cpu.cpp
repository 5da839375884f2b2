// Resizing one dimension on CPU. With s the input's size over the output's (or 1 / scale), output o
// samples the input at x = s (o + 1/2) - 1/2, or at o (in - 1) / (out - 1) with aligned corners.
// Formula:
//   linear        2 taps, 1 - |x - i|, x at least 0;
//   cubic         4 taps of Keys's kernel with a = -0.75, at the edge repeating its element;
//   linear-aa     max(0, 1 - |d|) of d = (i - x) / max(s, 1), normalised; cubic-aa with a = -0.5;
//   nearest       the element at floor(s o); nearest-exact: at floor(s (o + 1/2)).
// Accumulates in: float32, double for double; places as well, as in PyTorch.
// NaN, infinity: both follow IEEE arithmetic within the taps of an output.
// Error: 8 eps of the largest magnitude.
// Source: Keys 1981, "Cubic Convolution Interpolation".
#include <algorithm>
#include <cmath>

#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/ops/resample/taps.h"
#include "torchgen_out/aten/resample_kernels.h"

namespace flambeau::resample {
namespace {

struct Sizes {
  int64_t in, out;
  bool align_corners;
  std::optional<double> scale;
};

// The input's step per output element.
template <typename R>
R step_of(const Sizes& s) {
  if (s.align_corners) {
    return s.out > 1 ? static_cast<R>(s.in - 1) / static_cast<R>(s.out - 1) : R(0);
  }
  if (s.scale && *s.scale > 0) return static_cast<R>(1.0 / *s.scale);
  return static_cast<R>(s.in) / static_cast<R>(s.out);
}

// A place that int64 holds: far outside, or NaN where an infinite step meets 0, becomes one near
// the edge, which takes the same elements.
template <typename R>
R within(R place, int64_t in) {
  return std::fmin(std::fmax(place, R(-4)), static_cast<R>(in) + R(4));
}

// Keys's kernel at distance |x|.
template <typename R>
R cubic(R x, R a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : R(0);
}

Taps nearest(const Sizes& s, bool exact) {
  const float step = step_of<float>({s.in, s.out, false, s.scale});
  std::vector<int64_t> index;
  for (int64_t o = 0; o < s.out; ++o) {
    const float place = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * step;
    int64_t i = static_cast<int64_t>(std::floor(within(place, s.in)));
    i = std::clamp<int64_t>(i, 0, s.in - 1);  // below 0 where an infinite step meets 0
    if (!exact && s.out == s.in) i = o;
    if (!exact && s.out == 2 * s.in) i = o / 2;
    index.push_back(i);
  }
  return copying(std::move(index));
}

// Taps around each place: `count` of them from floor(place) - before, weighted by `kernel` of the
// distance; those outside fall on the edge.
template <typename R, typename Kernel>
Taps around(const Sizes& s, int64_t before, int64_t count, bool clamped, const Kernel& kernel) {
  Taps taps;
  taps.per_output = count;
  taps.first.push_back(0);
  const R step = step_of<R>(s);
  for (int64_t o = 0; o < s.out; ++o) {
    R place =
        s.align_corners ? step * static_cast<R>(o) : step * (static_cast<R>(o) + R(0.5)) - R(0.5);
    place = within(place, s.in);
    if (clamped) place = std::clamp(place, R(0), static_cast<R>(s.in - 1));
    const auto base = static_cast<int64_t>(std::floor(place));
    const R offset = place - static_cast<R>(base);
    for (int64_t t = -before; t < count - before; ++t) {
      taps.index.push_back(std::clamp<int64_t>(base + t, 0, s.in - 1));
      taps.weight.push_back(static_cast<double>(kernel(static_cast<R>(t) - offset)));
    }
    taps.first.push_back(static_cast<int64_t>(taps.index.size()));
  }
  return taps;
}

// A filter of radius `radius` that widens with the step.
template <typename R, typename Kernel>
Taps antialiased(const Sizes& s, R radius, const Kernel& kernel) {
  Taps taps;
  taps.first.push_back(0);
  const R step = step_of<R>(s), width = std::max(step, R(1)), support = radius * width;
  for (int64_t o = 0; o < s.out; ++o) {
    const R center = step * (static_cast<R>(o) + R(0.5));
    const auto from =
        std::max<int64_t>(static_cast<int64_t>(within(center - support + R(0.5), s.in)), 0);
    const auto to =
        std::min<int64_t>(static_cast<int64_t>(within(center + support + R(0.5), s.in)), s.in);
    const size_t begin = taps.weight.size();
    R total = 0;
    for (int64_t i = from; i < to; ++i) {
      const R weight = kernel((static_cast<R>(i) - center + R(0.5)) / width);
      total += weight;
      taps.index.push_back(i);
      taps.weight.push_back(static_cast<double>(weight));
    }
    for (size_t t = begin; t < taps.weight.size() && total != R(0); ++t) taps.weight[t] /= total;
    taps.first.push_back(static_cast<int64_t>(taps.index.size()));
  }
  return taps;
}

template <typename R>
Taps weighted(std::string_view mode, const Sizes& s) {
  const auto hat = [](R x) { return std::max(R(0), R(1) - std::abs(x)); };
  if (mode == "linear") return around<R>(s, 0, 2, true, hat);
  if (mode == "cubic") return around<R>(s, 1, 4, false, [](R x) { return cubic(x, R(-0.75)); });
  if (mode == "linear-aa") return antialiased<R>(s, R(1), hat);
  return antialiased<R>(s, R(2), [](R x) { return cubic(x, R(-0.5)); });
}

Taps taps_of(std::string_view mode, ScalarType dtype, const Sizes& s) {
  if (mode == "nearest" || mode == "nearest-exact") return nearest(s, mode != "nearest");
  const bool wide = to_real_type(dtype) == ScalarType::Float64;
  return wide ? weighted<double>(mode, s) : weighted<float>(mode, s);
}

}  // namespace
}  // namespace flambeau::resample

namespace flambeau::ops {

void resample_cpu(const Tensor& self, int64_t dim, int64_t size, std::string_view mode,
                  bool align_corners, std::optional<double> scale, Tensor& out) {
  const resample::Sizes sizes{self.size(dim), size, align_corners, scale};
  resample::apply(resample::taps_of(mode, self.dtype(), sizes), self, dim, out);
}

void resample_backward_cpu(const Tensor& grad_output, int64_t dim, int64_t input_size,
                           std::string_view mode, bool align_corners, std::optional<double> scale,
                           Tensor& out) {
  const resample::Sizes sizes{input_size, grad_output.size(dim), align_corners, scale};
  const resample::Taps taps = resample::taps_of(mode, grad_output.dtype(), sizes);
  resample::apply(resample::transposed(taps, input_size), grad_output, dim, out);
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void resampled(const Tensor& self, int64_t dim, int64_t size, std::string_view mode, OutSpec* out) {
  dim = wrap_dim(dim, self.dim());
  constexpr std::string_view kModes[] = {"nearest", "nearest-exact", "linear",
                                         "cubic",   "linear-aa",     "cubic-aa"};
  check(std::ranges::find(kModes, mode) != std::end(kModes), "_resample: expected a known mode, ",
        "got '", mode, "'");
  check(size > 0 && self.size(dim) > 0, "interpolate: expected sizes above 0, got ", self.size(dim),
        " for the input and ", size, " for the output");
  const bool copies = mode.substr(0, 7) == "nearest";
  if (!is_floating_type(self.dtype()) && !(copies && self.dtype() == ScalarType::UInt8))
    fail_dtype("interpolate", self.dtype());
  DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(dim)] = size;
  *out = {sizes, {}, self.dtype(), self.device()};
  keep_format(self, out);
}

}  // namespace flambeau::shape
