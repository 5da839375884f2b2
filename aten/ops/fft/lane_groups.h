#pragma once
// Neighbouring columns of a matrix, several times as many as there are lanes: all of them are
// brought into lanes row by row, so that memory is read in long runs, and then transformed.
#include <algorithm>
#include <vector>

#include "aten/ops/fft/lane_buffers.h"

namespace flambeau::fft {

template <typename T>
class LaneGroups {
 public:
  // How many groups of transforms of `capacity` elements stay in the second-level cache; enough
  // for runs of 512 bytes otherwise.
  static int64_t most(int64_t capacity) {
    const int64_t bytes = 4 * capacity * loops<T>().lanes * int64_t{sizeof(T)};
    const int64_t run = 2 * loops<T>().lanes * int64_t{sizeof(T)};
    return std::clamp<int64_t>(kCacheBytes / bytes, 1, std::min(kMost, kRunBytes / run));
  }
  LaneGroups(int64_t capacity, int64_t groups) {
    for (int64_t g = 0; g < groups; ++g) buffers_.emplace_back(capacity);
  }

  // `columns` of them, from `in` on; a last group may have fewer than there are lanes.
  void gather(const T* in, Layout layout, int64_t n, int64_t columns) {
    const int64_t width = loops<T>().lanes, whole = columns / width;
    begin(columns);
    loops<T>().gather_groups(in, layout, n, whole, re_, im_);
    if (columns % width == 0) return;
    loops<T>().gather(in + 2 * whole * width, layout, n, columns % width, re_[whole], im_[whole]);
  }
  // As many rows instead, brought to lanes.
  void gather_rows(const T* in, Layout layout, int64_t n, int64_t rows) {
    const int64_t width = loops<T>().lanes;
    begin(rows);
    for (int64_t g = 0; g < used_; ++g) {
      loops<T>().gather(in + g * width * layout.lane_step, layout, n,
                        std::min(width, rows - g * width), re_[g], im_[g]);
    }
  }
  template <typename Plan>
  void execute(const Plan& plan) {
    for (int64_t g = 0; g < used_; ++g) plan.execute(re_[g], im_[g], work_re_[g], work_im_[g]);
  }
  // body(group, re, im)
  template <typename Body>
  void each(const Body& body) {
    for (int64_t g = 0; g < used_; ++g) body(g, re_[g], im_[g]);
  }
  void scatter(Layout layout, int64_t n, int64_t columns, T scale, T* out) {
    const int64_t width = loops<T>().lanes, whole = columns / width;
    loops<T>().scatter_groups(re_, im_, layout, n, whole, scale, out);
    if (columns % width == 0) return;
    loops<T>().scatter(re_[whole], im_[whole], layout, n, columns % width, scale,
                       out + 2 * whole * width);
  }

 private:
  static constexpr int64_t kMost = 32;
  static constexpr int64_t kRunBytes = 512;
  static constexpr int64_t kCacheBytes = 1 << 20;

  void begin(int64_t columns) {
    used_ = (columns + loops<T>().lanes - 1) / loops<T>().lanes;
    for (int64_t g = 0; g < used_; ++g) {
      const LaneBuffers<T>& b = buffers_[static_cast<size_t>(g)];
      re_[g] = b.re, im_[g] = b.im, work_re_[g] = b.work_re, work_im_[g] = b.work_im;
    }
  }

  int64_t used_ = 0;
  std::vector<LaneBuffers<T>> buffers_;
  T *re_[kMost], *im_[kMost], *work_re_[kMost], *work_im_[kMost];
};

}  // namespace flambeau::fft
