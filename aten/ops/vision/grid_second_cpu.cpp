// Derivatives of grid sampling along a direction, on CPU, with the weights w_t of a place's taps
// (grid_taps.h), their slopes by the grid's numbers and s_t = sum_d slope_td grid_t[d].
// Formula:
//   tangent of the result            sum_t w_t input_t[o_t] + s_t input[o_t]
//   tangent of the input's gradient  sum_t s_t grad, added at o_t
//   tangent of the grid's gradient   sum_t slope_te (input_t . grad) + (dslope_te . grid_t)(input .
//   grad)
//   where . sums over channels. The last two hold for a fixed grad.
// Accumulates in: float32 (double for double).
// NaN, infinity: as in grid_sampler_cpu.cpp.
// Error: 32 eps of the largest magnitude.
// Source: by definition.
#include <array>
#include <cmath>

#include "aten/core/factory.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/vision/grid_places.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/vision_kernels.h"

namespace flambeau::ops {
namespace {

using vision::AxisTaps;
using vision::GridShape;
using vision::Sampling;

constexpr size_t kMostTaps = 16;  // 4 x 4 of cubic images; volumes have 8

// One element that a place takes. slope: of its weight by the grid's numbers, x first; along: how
// the weight changes in the direction; bend: how the slope does.
template <typename T>
struct BentTap {
  int64_t offset;
  T weight, along;
  std::array<T, 3> slope, bend;
};

template <typename T>
struct BentTaps {
  size_t count = 0;
  std::array<BentTap<T>, kMostTaps> taps;
};

// Weight, slope and curvature along depth, height and width.
template <typename T>
using Factors = std::array<std::array<T, 3>, 3>;

template <typename T>
BentTap<T> bent_tap(int64_t offset, const Factors<T>& f, const std::array<T, 3>& to) {
  // product(x, y, z): the weight differentiated x, y and z times along the axes.
  const auto product = [&](size_t x, size_t y, size_t z) { return f[0][z] * f[1][y] * f[2][x]; };
  BentTap<T> tap{offset, product(0, 0, 0), T(0), {}, {}};
  tap.slope = {product(1, 0, 0), product(0, 1, 0), product(0, 0, 1)};
  for (size_t d = 0; d < 3; ++d) tap.along += to[d] * tap.slope[d];
  const T xy = product(1, 1, 0), xz = product(1, 0, 1), yz = product(0, 1, 1);
  tap.bend = {to[0] * product(2, 0, 0) + to[1] * xy + to[2] * xz,
              to[0] * xy + to[1] * product(0, 2, 0) + to[2] * yz,
              to[0] * xz + to[1] * yz + to[2] * product(0, 0, 2)};
  return tap;
}

// Second derivatives of the weights by g: only the cubic ones are not straight lines.
template <typename T>
std::array<T, 4> axis_bends(T g, int64_t size, const Sampling& s) {
  std::array<T, 4> bends{};
  if (s.filter != vision::Filter::Cubic) return bends;
  constexpr T a = T(-0.75);
  const vision::Place<T> p = vision::place_of(g, size, s);
  const T t = p.at - std::floor(p.at);
  for (int i = 0; i < 4; ++i) {
    const T x = std::abs(t - static_cast<T>(i - 1));
    const T bend = i == 1 || i == 2 ? 6 * (a + 2) * x - 2 * (a + 3) : 6 * a * x - 10 * a;
    bends[static_cast<size_t>(i)] = bend * p.slope * p.slope;
  }
  return bends;
}

// The taps of the place at g, for the direction `to`.
template <typename T>
void bent_taps(const GridShape& shape, const Sampling& s, const T* g, const T* to,
               BentTaps<T>& list) {
  std::array<AxisTaps<T>, 3> axes;  // depth, height, width
  std::array<std::array<T, 4>, 3> bends{};
  axes[0] = {1, {0, -1, -1, -1}, {1, 0, 0, 0}, {0, 0, 0, 0}};
  std::array<T, 3> direction{};
  for (int64_t d = 0; d < shape.dims; ++d) {
    const auto at = static_cast<size_t>(2 - d);
    axes[at] = vision::axis_taps(g[d], shape.in[at], s);
    bends[at] = axis_bends(g[d], shape.in[at], s);
    direction[static_cast<size_t>(d)] = to[d];
  }
  list.count = 0;
  const auto factor = [&](size_t axis, size_t i) {
    return std::array<T, 3>{axes[axis].weight[i], axes[axis].slope[i], bends[axis][i]};
  };
  for (size_t i = 0; i < static_cast<size_t>(axes[0].count); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(axes[1].count); ++j) {
      for (size_t k = 0; k < static_cast<size_t>(axes[2].count); ++k) {
        const int64_t z = axes[0].index[i], y = axes[1].index[j], x = axes[2].index[k];
        if (x < 0 || y < 0 || z < 0) continue;
        const int64_t offset = (z * shape.in[1] + y) * shape.in[2] + x;
        const Factors<T> factors{factor(0, i), factor(1, j), factor(2, k)};
        list.taps[list.count++] = bent_tap(offset, factors, direction);
      }
    }
  }
}

// body(batch element, place, taps) for all places, or for those of each image in one thread.
template <typename T, typename Body>
void for_each_place(const GridShape& shape, const Sampling& s, const Tensor& grid,
                    const Tensor& grid_t, bool whole_images, const Body& body) {
  const int64_t run = whole_images ? shape.places : 1;
  const int64_t cost = run * (shape.channels + 16) * 16;
  parallel_for(0, shape.batch * shape.places / std::max<int64_t>(run, 1), cost,
               [&](int64_t begin, int64_t end) {
                 BentTaps<T> list;
                 for (int64_t i = begin * run; i < end * run; ++i) {
                   bent_taps(shape, s, grid.data_as<T>() + i * shape.dims,
                             grid_t.data_as<T>() + i * shape.dims, list);
                   body(i / shape.places, i % shape.places, list);
                 }
               });
}

template <typename T>
void tangent(const GridShape& shape, const Sampling& s, const Tensor& in_t, const Tensor& grid_t,
             const Tensor& in, const Tensor& grid, const Tensor& out) {
  for_each_place<T>(
      shape, s, grid, grid_t, false, [&](int64_t n, int64_t p, const BentTaps<T>& list) {
        for (int64_t c = 0; c < shape.channels; ++c) {
          const int64_t image = (n * shape.channels + c) * shape.in_size;
          const T *value = in.data_as<T>() + image, *change = in_t.data_as<T>() + image;
          T sum = 0;
          for (size_t t = 0; t < list.count; ++t) {
            const BentTap<T>& tap = list.taps[t];
            sum += tap.weight * change[tap.offset] + tap.along * value[tap.offset];
          }
          out.data_as<T>()[(n * shape.channels + c) * shape.places + p] = sum;
        }
      });
}

template <typename T>
void backward_tangent(const GridShape& shape, const Sampling& s, const std::array<Tensor, 5>& given,
                      const Tensor& to_input, const Tensor& to_grid) {
  const auto& [in_t, grid_t, grad, in, grid] = given;
  for_each_place<T>(
      shape, s, grid, grid_t, true, [&](int64_t n, int64_t p, const BentTaps<T>& list) {
        std::array<T, 3> sums{};
        for (int64_t c = 0; c < shape.channels; ++c) {
          const int64_t image = (n * shape.channels + c) * shape.in_size;
          const T *value = in.data_as<T>() + image, *change = in_t.data_as<T>() + image;
          const T g = grad.data_as<T>()[(n * shape.channels + c) * shape.places + p];
          T* to = to_input.data_as<T>() + image;
          for (size_t t = 0; t < list.count; ++t) {
            const BentTap<T>& tap = list.taps[t];
            to[tap.offset] += tap.along * g;
            const T from = value[tap.offset] * g, changed = change[tap.offset] * g;
            for (size_t d = 0; d < 3; ++d) sums[d] += tap.slope[d] * changed + tap.bend[d] * from;
          }
        }
        T* to = to_grid.data_as<T>() + (n * shape.places + p) * shape.dims;
        for (int64_t d = 0; d < shape.dims; ++d) to[d] = sums[static_cast<size_t>(d)];
      });
}

}  // namespace

void grid_sampler_tangent_cpu(const Tensor& input_tangent, const Tensor& grid_tangent,
                              const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                              int64_t padding_mode, bool align_corners, Tensor& out) {
  if (out.numel() == 0) return;
  const Sampling s = vision::sampling_of(interpolation_mode, padding_mode, align_corners);
  const Tensor in = vision::usable(input), places = vision::usable(grid);
  const Tensor in_t = vision::usable(input_tangent), places_t = vision::usable(grid_tangent);
  const Tensor target = out.dtype() == in.dtype() ? out : empty_tensor(out.sizes(), in.dtype());
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      in.dtype(), "grid_sampler", [&]<typename T>() {
        tangent<T>(GridShape(input, grid), s, in_t, places_t, in, places, target);
      });
  if (target.impl() != out.impl()) copy_into(out, target);
}

void grid_sampler_backward_tangent_cpu(const Tensor& input_tangent, const Tensor& grid_tangent,
                                       const Tensor& grad_output, const Tensor& input,
                                       const Tensor& grid, int64_t interpolation_mode,
                                       int64_t padding_mode, bool align_corners, Tensor& grad_input,
                                       Tensor& grad_grid) {
  const Sampling s = vision::sampling_of(interpolation_mode, padding_mode, align_corners);
  const std::array<Tensor, 5> given{vision::usable(input_tangent), vision::usable(grid_tangent),
                                    vision::usable(grad_output), vision::usable(input),
                                    vision::usable(grid)};
  const ScalarType type = given[3].dtype();
  const Tensor sums = zeros_tensor(grad_input.sizes(), type);
  const Tensor slopes = zeros_tensor(grad_grid.sizes(), type);
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(type, "grid_sampler", [&]<typename T>() {
    if (grad_output.numel() == 0) return;
    backward_tangent<T>(GridShape(input, grid), s, given, sums, slopes);
  });
  copy_into(grad_input, sums);
  copy_into(grad_grid, slopes);
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void grid_sampler_tangent(const Tensor& input_tangent, const Tensor& grid_tangent,
                          const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                          int64_t padding_mode, OutSpec* out) {
  check(input_tangent.sizes() == input.sizes() && input_tangent.dtype() == input.dtype() &&
            grid_tangent.sizes() == grid.sizes() && grid_tangent.dtype() == grid.dtype(),
        "grid_sampler: expected tangents like the input and the grid, got ", input_tangent, " and ",
        grid_tangent);
  grid_sampler(input, grid, interpolation_mode, padding_mode, out);
}

void grid_sampler_backward_tangent(const Tensor& input_tangent, const Tensor& grid_tangent,
                                   const Tensor& grad_output, const Tensor& input,
                                   const Tensor& grid, int64_t interpolation_mode,
                                   int64_t padding_mode, OutSpec* out) {
  grid_sampler_tangent(input_tangent, grid_tangent, input, grid, interpolation_mode, padding_mode,
                       out);
  grid_sampler_backward(grad_output, input, grid, interpolation_mode, padding_mode, out);
}

}  // namespace flambeau::shape
