#pragma once
// Regions of interest: rows (index of the image, x1, y1, x2, y2) of a matrix. Coordinates are data:
// they may be NaN, infinite or far outside, and are never converted to an integer unless they fit.
#include <cmath>
#include <cstdint>

#include "aten/core/tensor.h"
#include "c10/core/check.h"

namespace flambeau::detection {

// Shapes of the features [N, C, H, W] and of the pooled output.
struct Pooling {
  int64_t batch, channels, height, width;
  int64_t pooled_height, pooled_width;
  double scale;
  int64_t plane() const { return height * width; }
  int64_t bins() const { return pooled_height * pooled_width; }
};

// The image that a region lies in; RuntimeError if there is none of this index.
template <typename Acc>
int64_t image_of(const char* op, Acc index, int64_t batch) {
  check(index > Acc(-1) && index < static_cast<Acc>(batch), op,
        ": expected the first column of rois to be indices of ", batch, " images, got ",
        static_cast<double>(index));
  return static_cast<int64_t>(index);
}

// Beyond this, places are outside every image, and sums of a few of them still fit.
constexpr int64_t kFar = int64_t{1} << 40;

// A whole number as an integer, limited to kFar. Not for NaN.
template <typename Acc>
int64_t limited(Acc value) {
  if (value >= static_cast<Acc>(kFar)) return kFar;
  if (value <= -static_cast<Acc>(kFar)) return -kFar;
  return static_cast<int64_t>(value);
}

}  // namespace flambeau::detection
