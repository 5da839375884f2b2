#pragma once
// Loops over the places of a grid, compiled once per instruction set: float first, then double. Tap
// i of place p lies at [i * places + p]; index -1 is outside and counts as zero.
#include "aten/core/loop_types.h"
#include "aten/ops/vision/grid_taps.h"

namespace flambeau::vision {

struct GridLoops {
  // The taps along one axis of `size` elements for the numbers at grid[p * step]; returns how many.
  int64_t (*axis)(int64_t places, const void* grid, int64_t step, int64_t size, const Sampling& s,
                  int64_t* index, void* weight);
  // Each of `outer` taps with each of `inner` ones along the next axis, of `size` elements.
  void (*cross)(int64_t places, int64_t outer, const int64_t* outer_index, const void* outer_weight,
                int64_t inner, const int64_t* inner_index, const void* inner_weight, int64_t size,
                int64_t* index, void* weight);
  // out[p] = sum over its taps of weight times element, in order, for each of some images.
  void (*sample)(int64_t places, int64_t taps, const int64_t* index, const void* weight,
                 int64_t images, const void* image, int64_t image_step, void* out,
                 int64_t out_step);
};

}  // namespace flambeau::vision
