#pragma once
// Pooling windows over up to three spatial dimensions, fixed or adaptive.
#include <vector>

#include "aten/core/tensor.h"
#include "aten/ops/pool/pool_loops.h"

namespace flambeau::pool {

struct Geometry {
  int64_t planes = 1;  // batch * channels
  bool batched = false;
  int64_t in[3] = {1, 1, 1};
  std::vector<Range> ranges[3];
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const {
    return static_cast<int64_t>(ranges[0].size() * ranges[1].size() * ranges[2].size());
  }
  Windows windows() const {
    Windows w;
    for (int d = 0; d < 3; ++d) {
      w.in[d] = in[d];
      w.counts[d] = static_cast<int64_t>(ranges[d].size());
      w.ranges[d] = ranges[d].data();
    }
    return w;
  }
};

// Sizes of the result: spatial dims only. Checks the arguments.
DimVector fixed_sizes(const char* op, IntArrayRef input, IntArrayRef kernel, IntArrayRef stride,
                      IntArrayRef padding, IntArrayRef dilation, bool ceil_mode);
Geometry fixed(IntArrayRef input, IntArrayRef out, IntArrayRef kernel, IntArrayRef stride,
               IntArrayRef padding, IntArrayRef dilation);
Geometry adaptive(IntArrayRef input, IntArrayRef out);

// Calls body(output offset, ranges of the three dimensions) for every window of a plane.
template <typename Body>
void for_each_window(const Geometry& g, Body body) {
  int64_t o = 0;
  for (const Range& a : g.ranges[0]) {
    for (const Range& b : g.ranges[1]) {
      for (const Range& c : g.ranges[2]) body(o++, a, b, c);
    }
  }
}
// Calls body(input offset) for every place of a window.
template <typename Body>
void for_each_place(const Geometry& g, const Range& a, const Range& b, const Range& c, Body body) {
  for (int64_t x = a.begin; x < a.end; x += a.step) {
    for (int64_t y = b.begin; y < b.end; y += b.step) {
      for (int64_t z = c.begin; z < c.end; z += c.step) body((x * g.in[1] + y) * g.in[2] + z);
    }
  }
}

}  // namespace flambeau::pool
