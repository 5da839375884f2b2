#pragma once
// What the kernels of grid sampling share: sizes, options, and operands as they read them.
#include <algorithm>
#include <array>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/ops/vision/grid_taps.h"
#include "c10/core/scalar_type.h"

namespace flambeau::vision {

struct GridShape {
  int64_t batch, channels, dims;
  std::array<int64_t, 3> in{1, 1, 1};  // depth, height, width
  int64_t in_size, places;
  GridShape(const Tensor& input, const Tensor& grid)
      : batch(input.size(0)), channels(input.size(1)), dims(input.dim() - 2) {
    for (int64_t d = 0; d < dims; ++d) in[static_cast<size_t>(3 - dims + d)] = input.size(d + 2);
    in_size = in[0] * in[1] * in[2];
    places = grid.numel() / std::max<int64_t>(1, batch * dims);
  }
};

inline Sampling sampling_of(int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {
  return {static_cast<Filter>(interpolation_mode), static_cast<Border>(padding_mode),
          align_corners};
}

// Row-major, in the type that the kernels compute in.
inline Tensor usable(const Tensor& t) {
  return contiguous_tensor(cast_tensor(t, compute_type(t.dtype())));
}

}  // namespace flambeau::vision
