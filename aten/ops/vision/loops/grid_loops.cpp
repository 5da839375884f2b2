// Taps and weighted sums of a grid's places, compiled once per instruction set.
// Formula: the index and weight of each tap along one axis; sums over taps of weight * element.
// Accumulates in: float32 or float64.
// NaN, infinity: as in grid_sampler_cpu.cpp: a NaN place is outside, or at the first edge.
// Error: that of grid_sampler_cpu.cpp: 16 eps of the largest magnitude.
// Source: by definition.
#include "aten/ops/vision/grid_loops.h"

#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

using vision::AxisTaps;
using vision::Border;
using vision::Filter;
using vision::Sampling;

// The filter and the border are constants here, so that no place branches by them.
template <typename T, Filter kFilter, Border kBorder>
int64_t axis_by(int64_t places, const T* grid, int64_t step, int64_t size, bool align_corners,
                int64_t* index, T* weight) {
  constexpr int kTaps = kFilter == Filter::Cubic ? 4 : kFilter == Filter::Linear ? 2 : 1;
  const Sampling s{kFilter, kBorder, align_corners};
#pragma omp simd
  for (int64_t p = 0; p < places; ++p) {
    const AxisTaps<T> taps = vision::axis_taps(grid[p * step], size, s);
#pragma GCC unroll 4
    for (int i = 0; i < kTaps; ++i) {
      index[i * places + p] = taps.index[i];
      weight[i * places + p] = taps.weight[i];
    }
  }
  return kTaps;
}
template <typename T, Filter kFilter>
int64_t axis_with(int64_t places, const T* grid, int64_t step, int64_t size, const Sampling& s,
                  int64_t* index, T* weight) {
  switch (s.border) {
    case Border::Zeros:
      return axis_by<T, kFilter, Border::Zeros>(places, grid, step, size, s.align_corners, index,
                                                weight);
    case Border::Edge:
      return axis_by<T, kFilter, Border::Edge>(places, grid, step, size, s.align_corners, index,
                                               weight);
    default:
      return axis_by<T, kFilter, Border::Reflection>(places, grid, step, size, s.align_corners,
                                                     index, weight);
  }
}
template <typename T>
int64_t axis(int64_t places, const void* grid, int64_t step, int64_t size, const Sampling& s,
             int64_t* index, void* weight) {
  const T* g = static_cast<const T*>(grid);
  T* w = static_cast<T*>(weight);
  switch (s.filter) {
    case Filter::Linear:
      return axis_with<T, Filter::Linear>(places, g, step, size, s, index, w);
    case Filter::Nearest:
      return axis_with<T, Filter::Nearest>(places, g, step, size, s, index, w);
    default:
      return axis_with<T, Filter::Cubic>(places, g, step, size, s, index, w);
  }
}

template <typename T>
void cross(int64_t places, int64_t outer, const int64_t* outer_index, const void* outer_weight,
           int64_t inner, const int64_t* inner_index, const void* inner_weight, int64_t size,
           int64_t* index, void* weight) {
  T* to = static_cast<T*>(weight);
  for (int64_t i = 0; i < outer; ++i) {
    const int64_t* rows = outer_index + i * places;
    const T* a = static_cast<const T*>(outer_weight) + i * places;
    for (int64_t j = 0; j < inner; ++j, index += places, to += places) {
      const int64_t* columns = inner_index + j * places;
      const T* b = static_cast<const T*>(inner_weight) + j * places;
#pragma omp simd
      for (int64_t p = 0; p < places; ++p) {
        const bool inside = (rows[p] | columns[p]) >= 0;
        index[p] = inside ? rows[p] * size + columns[p] : -1;
        to[p] = a[p] * b[p];
      }
    }
  }
}

// Several images share the reads of taps. A branch for each tap: neighbours mostly go the same way,
// and whole regions lie outside.
template <typename T, int kImages>
void sample_images(int64_t places, int64_t taps, const int64_t* index, const T* weight,
                   const T* image, int64_t image_step, T* out, int64_t out_step) {
  for (int64_t p = 0; p < places; ++p) {
    T sums[kImages] = {};
    for (int64_t t = p; t < taps * places; t += places) {
      const int64_t at = index[t];
      if (at < 0) continue;
#pragma GCC unroll 4
      for (int c = 0; c < kImages; ++c) sums[c] += weight[t] * image[at + c * image_step];
    }
#pragma GCC unroll 4
    for (int c = 0; c < kImages; ++c) out[p + c * out_step] = sums[c];
  }
}
template <typename T>
void sample(int64_t places, int64_t taps, const int64_t* index, const void* weight, int64_t images,
            const void* image, int64_t image_step, void* out, int64_t out_step) {
  const T *w = static_cast<const T*>(weight), *x = static_cast<const T*>(image);
  T* y = static_cast<T*>(out);
  int64_t c = 0;
  for (; c + 4 <= images; c += 4)
    sample_images<T, 4>(places, taps, index, w, x + c * image_step, image_step, y + c * out_step,
                        out_step);
  for (; c < images; ++c)
    sample_images<T, 1>(places, taps, index, w, x + c * image_step, image_step, y + c * out_step,
                        out_step);
}

template <typename T>
constexpr vision::GridLoops table() {
  return {&axis<T>, &cross<T>, &sample<T>};
}

}  // namespace

extern const vision::GridLoops FLAMBEAU_LOOPS(grid)[2];
const vision::GridLoops FLAMBEAU_LOOPS(grid)[2] = {table<float>(), table<double>()};

}  // namespace flambeau::loops
