// Sampling of images and volumes at the places of a grid on CPU.
// Formula: out = sum over taps of weight * input[place]; the weight of an element is the product of
// its weights along the axes (grid_taps.h); elements outside count as zero.
// Accumulates in: float32 (double for double), for places and sums.
// NaN, infinity: a NaN place is outside, or at the first edge; NaN pixels spread to the places that
// touch them.
// Error: 16 eps of the largest magnitude.
// Source: by definition; cubic weights: Keys 1981, "Cubic Convolution Interpolation".
#include <algorithm>
#include <array>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/vision/grid_loops.h"
#include "aten/ops/vision/grid_places.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/vision_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(vision::GridLoops, grid)

namespace ops {
namespace {

using vision::AxisTaps;
using vision::GridShape;
using vision::Sampling;
using vision::sampling_of;
using vision::usable;

constexpr int64_t kPlaces = 2048;  // whose taps are kept at a time

// One element that a place takes; slope: derivatives of the weight by the grid's numbers, x first.
template <typename T>
struct Tap {
  int64_t offset;
  T weight;
  std::array<T, 3> slope;
};

// All taps of some places: place i has those from first[i] to first[i + 1].
template <typename T>
struct TapList {
  std::vector<int64_t> first;
  std::vector<Tap<T>> taps;
};

template <typename T>
void append_taps(const GridShape& shape, const Sampling& s, const T* g, TapList<T>& list) {
  std::array<AxisTaps<T>, 3> axes;  // depth, height, width
  axes[0] = {1, {0, -1, -1, -1}, {1, 0, 0, 0}, {0, 0, 0, 0}};
  for (int64_t d = 0; d < shape.dims; ++d) {
    const auto at = static_cast<size_t>(2 - d);
    axes[at] = vision::axis_taps(g[d], shape.in[at], s);
  }
  for (size_t i = 0; i < static_cast<size_t>(axes[0].count); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(axes[1].count); ++j) {
      for (size_t k = 0; k < static_cast<size_t>(axes[2].count); ++k) {
        const int64_t x = axes[0].index[i], y = axes[1].index[j], z = axes[2].index[k];
        if (x < 0 || y < 0 || z < 0) continue;
        const T a = axes[0].weight[i], b = axes[1].weight[j], c = axes[2].weight[k];
        list.taps.push_back(
            {(x * shape.in[1] + y) * shape.in[2] + z,
             a * b * c,
             {a * b * axes[2].slope[k], a * axes[1].slope[j] * c, axes[0].slope[i] * b * c}});
      }
    }
  }
  list.first.push_back(static_cast<int64_t>(list.taps.size()));
}

// body(batch element, first place, taps) for stretches of places.
template <typename T, typename Body>
void for_each_stretch(const GridShape& shape, const Sampling& s, const Tensor& grid,
                      const Body& body) {
  const int64_t per_batch = (shape.places + kPlaces - 1) / kPlaces;
  const int64_t cost = std::min(kPlaces, shape.places) * (shape.channels + 8) * 4;
  parallel_for(0, shape.batch * per_batch, cost, [&](int64_t begin, int64_t end) {
    TapList<T> list;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / per_batch, from = i % per_batch * kPlaces;
      list.first.assign(1, 0);
      list.taps.clear();
      for (int64_t p = from; p < std::min(from + kPlaces, shape.places); ++p) {
        append_taps(shape, s, grid.data_as<T>() + (n * shape.places + p) * shape.dims, list);
      }
      body(n, from, list);
    }
  });
}

// The taps of some places of a grid, without slopes: index and weight of each in turn.
template <typename T>
struct TapRows {
  explicit TapRows(int64_t places) : places_(places) {}
  // Takes the numbers of the innermost axis last, as cross() does.
  void find(const vision::GridLoops& loops, const GridShape& shape, const Sampling& s,
            const T* grid) {
    count = 0;
    for (int64_t d = shape.dims; d-- > 0;) {
      const int64_t size = shape.in[static_cast<size_t>(2 - d)];
      const int64_t more = loops.axis(places_, grid + d, shape.dims, size, s, sized(axis_index_, 4),
                                      sized(axis_weight_, 4));
      if (count == 0) {
        std::swap(index, axis_index_);
        std::swap(weight, axis_weight_);
        count = more;
        continue;
      }
      loops.cross(places_, count, index.data(), weight.data(), more, axis_index_.data(),
                  axis_weight_.data(), size, sized(next_index_, count * more),
                  sized(next_weight_, count * more));
      std::swap(index, next_index_);
      std::swap(weight, next_weight_);
      count *= more;
    }
  }

  int64_t count = 0;
  std::vector<int64_t> index;
  std::vector<T> weight;

 private:
  template <typename U>
  U* sized(std::vector<U>& rows, int64_t taps) const {
    rows.resize(static_cast<size_t>(taps * places_));
    return rows.data();
  }
  int64_t places_;
  std::vector<int64_t> axis_index_, next_index_;
  std::vector<T> axis_weight_, next_weight_;
};

template <typename T>
void sample(const GridShape& shape, const Sampling& s, const Tensor& in, const Tensor& grid,
            const Tensor& out) {
  constexpr int64_t kTogether = 256;  // places whose taps fit the first cache
  static const LoopTable<vision::GridLoops> table = FLAMBEAU_LOOP_TABLE(grid);
  const vision::GridLoops& loops = table[sizeof(T) == sizeof(double)];
  const int64_t per_batch = (shape.places + kTogether - 1) / kTogether;
  const int64_t cost = std::min(kTogether, shape.places) * (shape.channels + 8) * 4;
  parallel_for(0, shape.batch * per_batch, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / per_batch, from = i % per_batch * kTogether;
      const int64_t places = std::min(kTogether, shape.places - from);
      TapRows<T> taps(places);
      taps.find(loops, shape, s, grid.data_as<T>() + (n * shape.places + from) * shape.dims);
      const int64_t first = n * shape.channels;
      loops.sample(places, taps.count, taps.index.data(), taps.weight.data(), shape.channels,
                   in.data_as<T>() + first * shape.in_size, shape.in_size,
                   out.data_as<T>() + first * shape.places + from, shape.places);
    }
  });
}

template <typename T>
void grid_grads(const GridShape& shape, const Sampling& s, const Tensor& grad, const Tensor& in,
                const Tensor& grid, const Tensor& out) {
  for_each_stretch<T>(shape, s, grid, [&](int64_t n, int64_t from, const TapList<T>& list) {
    const T* image = in.data_as<T>() + n * shape.channels * shape.in_size;
    const T* g = grad.data_as<T>() + n * shape.channels * shape.places + from;
    T* to = out.data_as<T>() + (n * shape.places + from) * shape.dims;
    for (size_t p = 0; p + 1 < list.first.size(); ++p) {
      std::array<T, 3> sum{};
      for (int64_t t = list.first[p]; t < list.first[p + 1]; ++t) {
        const Tap<T>& tap = list.taps[static_cast<size_t>(t)];
        T dot = 0;
        for (int64_t c = 0; c < shape.channels; ++c)
          dot += image[c * shape.in_size + tap.offset] * g[c * shape.places + int64_t(p)];
        for (size_t d = 0; d < 3; ++d) sum[d] += tap.slope[d] * dot;
      }
      for (int64_t d = 0; d < shape.dims; ++d)
        to[int64_t(p) * shape.dims + d] = sum[static_cast<size_t>(d)];
    }
  });
}

// Places of one image share elements, so that threads share out whole images.
template <typename T>
void input_grads(const GridShape& shape, const Sampling& s, const Tensor& grad, const Tensor& grid,
                 const Tensor& out) {
  parallel_for(0, shape.batch, shape.places * shape.channels * 4, [&](int64_t begin, int64_t end) {
    TapList<T> list;
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t p = 0; p < shape.places; ++p) {
        list.first.assign(1, 0);
        list.taps.clear();
        append_taps(shape, s, grid.data_as<T>() + (n * shape.places + p) * shape.dims, list);
        for (int64_t c = 0; c < shape.channels; ++c) {
          T* image = out.data_as<T>() + (n * shape.channels + c) * shape.in_size;
          const T g = grad.data_as<T>()[(n * shape.channels + c) * shape.places + p];
          for (const Tap<T>& tap : list.taps) image[tap.offset] += tap.weight * g;
        }
      }
    }
  });
}

}  // namespace

void grid_sampler_cpu(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                      int64_t padding_mode, bool align_corners, Tensor& out) {
  if (out.numel() == 0) return;
  const Sampling s = sampling_of(interpolation_mode, padding_mode, align_corners);
  const Tensor in = usable(input), places = usable(grid);
  const Tensor target = out.dtype() == in.dtype() ? out : empty_tensor(out.sizes(), in.dtype());
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      in.dtype(), "grid_sampler",
      [&]<typename T>() { sample<T>(GridShape(input, grid), s, in, places, target); });
  if (target.impl() != out.impl()) copy_into(out, target);
}

void grid_sampler_backward_cpu(const Tensor& grad_output, const Tensor& input, const Tensor& grid,
                               int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                               Tensor& grad_input, Tensor& grad_grid) {
  const Sampling s = sampling_of(interpolation_mode, padding_mode, align_corners);
  const Tensor in = usable(input), places = usable(grid), grad = usable(grad_output);
  const Tensor sums = zeros_tensor(grad_input.sizes(), in.dtype());
  const Tensor slopes = zeros_tensor(grad_grid.sizes(), in.dtype());
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      in.dtype(), "grid_sampler", [&]<typename T>() {
        const GridShape shape(input, grid);
        if (grad.numel() == 0) return;
        input_grads<T>(shape, s, grad, places, sums);
        grid_grads<T>(shape, s, grad, in, places, slopes);
      });
  copy_into(grad_input, sums);
  copy_into(grad_grid, slopes);
}

}  // namespace ops

namespace shape {

void grid_sampler(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                  int64_t padding_mode, OutSpec* out) {
  check(input.dtype() == grid.dtype(), "grid_sampler(): expected a grid of dtype ",
        pytorch_name_of(input.dtype()), ", got ", pytorch_name_of(grid.dtype()));
  const int64_t dims = input.dim() - 2;
  check((dims == 2 || dims == 3) && grid.dim() == input.dim(),
        "grid_sampler(): expected input and grid of 4 dimensions each, or of 5, got ", input,
        " and ", grid);
  check(input.size(0) == grid.size(0), "grid_sampler(): expected batches of equal size, got ",
        input, " and ", grid);
  check(grid.size(-1) == dims, "grid_sampler(): expected a grid that ends in size ", dims, ", got ",
        grid);
  for (int64_t d = 2; d < input.dim(); ++d) {
    check(input.size(d) > 0,
          "grid_sampler(): expected input with elements in all spatial dimensions, got ", input,
          ", empty in dimension ", d);
  }
  check(
      interpolation_mode >= 0 && interpolation_mode <= 2 && padding_mode >= 0 && padding_mode <= 2,
      "grid_sampler(): expected modes of 0, 1 or 2, got ", interpolation_mode, " and ",
      padding_mode);
  check(dims == 2 || interpolation_mode != 2,
        "grid_sampler(): expected an input of 4 dimensions for bicubic, got ", input);
  if (!is_floating_type(input.dtype())) fail_dtype("grid_sampler", input.dtype());
  DimVector sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d <= dims; ++d) sizes.push_back(grid.size(d));
  *out = {sizes, {}, input.dtype(), input.device()};
}

void grid_sampler_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid,
                           int64_t interpolation_mode, int64_t padding_mode, OutSpec* out) {
  OutSpec forward;
  grid_sampler(input, grid, interpolation_mode, padding_mode, &forward);
  check_grad_output("grid_sampler_backward", grad_output, forward.sizes);
  check(grad_output.dtype() == input.dtype(),
        "grid_sampler_backward: expected grad_output of type ", input.dtype(), ", got ",
        grad_output.dtype());
  like(input, out);
  like(grid, out + 1);
}

}  // namespace shape
}  // namespace flambeau
