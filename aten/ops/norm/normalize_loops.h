#pragma once
// Loops over channels of row-major (outer, channels, inner) tensors, one table per instruction set.
// Those over rows take all channels of a row at once.
#include "aten/core/loop_types.h"

namespace flambeau::norm {

// So many elements of short rows are taken together.
inline constexpr int64_t kJoined = 512;

struct Planes {
  int64_t outer, channels, inner;
  bool centered = true;  // false: about zero instead of the mean; not in loops over rows
};

// Numbers by which normalised elements are scaled and shifted: `width` of them for the inner
// elements of a channel, each for as many neighbours, and those of `period` channels one after the
// other. All of the loop's type.
struct Affine {
  const void *weight, *bias;
  int64_t width, period;
};
// What the gradients of an Affine are added to; null where they are not wanted.
struct AffineSums {
  double *weight, *bias;
};

// Channels first <= c < last; every pointer is to the whole tensor, statistics have one element a
// channel. `grad_variance` may be null.
struct Loops {
  // A width other than that of the inner elements leaves runs worth a loop of their own.
  void (*forward)(const Planes& p, int64_t first, int64_t last, double eps, const void* input,
                  const Affine& affine, void* output, void* center, void* variance);
  void (*backward)(const Planes& p, int64_t first, int64_t last, double eps,
                   const void* grad_normal, const void* grad_variance, const void* normal,
                   const void* variance, void* grad_input);
  // `scratch` of rows: 56 bytes for each of inner * (last - first) columns, and at least for
  // kJoined.
  void (*forward_rows)(const Planes& p, int64_t first, int64_t last, double eps, const void* input,
                       const Affine& affine, void* output, void* center, void* variance,
                       void* scratch);
  void (*backward_rows)(const Planes& p, int64_t first, int64_t last, double eps,
                        const void* grad_normal, const void* grad_variance, const void* normal,
                        const void* variance, void* grad_input, void* scratch);
  // Gradients of scaled and shifted elements. `scratch`: 16 bytes for each inner element.
  void (*affine_backward)(const Planes& p, int64_t first, int64_t last, double eps,
                          const void* grad, const void* input, const void* center,
                          const void* variance, const Affine& affine, const AffineSums& sums,
                          void* grad_input, void* scratch);
  void (*affine_backward_rows)(const Planes& p, int64_t first, int64_t last, double eps,
                               const void* grad, const void* input, const void* center,
                               const void* variance, const Affine& affine, const AffineSums& sums,
                               void* grad_input, void* scratch);
};

}  // namespace flambeau::norm
