#pragma once
// Running sums along one contiguous row, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::scan {

struct ScanLoops {
  // out[i] = *state + in[0] + ... + in[i], and *state what the next element is added to. Float32
  // sums in double, and rounds each result. `out` may be `in`.
  void (*sum_float)(int64_t n, const float* in, float* out, double* state);
  void (*sum_int64)(int64_t n, const int64_t* in, int64_t* out, int64_t* state);
};

}  // namespace flambeau::scan
