#pragma once
// Means over windows of planes, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::pool {

// The input indices of one window along one dimension: begin, begin + step, ... < end; `padded`
// counts the places including padding.
struct Range {
  int64_t begin, end, step, padded;
  int64_t size() const { return end - begin; }
};

// How a window's sum is divided.
struct Divisor {
  bool include_padding = true;
  int64_t override = 0;  // 0: none
  int64_t of(const Range& a, const Range& b, const Range& c) const {
    if (override != 0) return override;
    return include_padding ? a.padded * b.padded * c.padded : a.size() * b.size() * c.size();
  }
};

// Windows of step 1 over planes of `in` elements, by the ranges of the three dimensions.
struct Windows {
  int64_t in[3];
  int64_t counts[3];
  const Range* ranges[3];
};

// `scratch`: 16 * in[2] bytes.
using MeanLoop = void (*)(const Windows& w, const Divisor& divisor, int64_t planes, const void* in,
                          void* out, void* scratch);
enum MeanType { kMeanFloat, kMeanDouble, kMeanInt64, kMeanTypes };

}  // namespace flambeau::pool
