#pragma once
// Loops over channels of row-major (outer, channels, inner) tensors, one table per instruction set.
// Those over rows take all channels of a row at once.
#include "aten/core/loop_types.h"

namespace flambeau::norm {

struct Planes {
  int64_t outer, channels, inner;
};

// Channels first <= c < last; every pointer is to the whole tensor, statistics have one element a
// channel. `grad_variance` may be null.
struct Loops {
  void (*forward)(const Planes& p, int64_t first, int64_t last, double eps, const void* input,
                  void* normal, void* center, void* variance);
  void (*backward)(const Planes& p, int64_t first, int64_t last, double eps,
                   const void* grad_normal, const void* grad_variance, const void* normal,
                   const void* variance, void* grad_input);
  // `scratch`: 40 bytes for each of inner * (last - first) columns.
  void (*forward_rows)(const Planes& p, int64_t first, int64_t last, double eps, const void* input,
                       void* normal, void* center, void* variance, void* scratch);
  void (*backward_rows)(const Planes& p, int64_t first, int64_t last, double eps,
                        const void* grad_normal, const void* grad_variance, const void* normal,
                        const void* variance, void* grad_input, void* scratch);
};

}  // namespace flambeau::norm
