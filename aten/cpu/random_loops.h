#pragma once
// Loops that convert raw draws to uniform and normal numbers, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau {

struct RandomLoops {
  // out[i] = unit(raw[i]) * (to - from) + from, rounded once; where that gives `to`, `from`. A
  // double takes two draws, the upper half first.
  void (*uniform_float)(int64_t n, const uint32_t* raw, float* out, float from, float to);
  void (*uniform_double)(int64_t n, const uint32_t* raw, double* out, double from, double to);
  // Box-Muller in place on n (a multiple of 16) uniform numbers of [0, 1).
  void (*normal_blocks)(int64_t n, float* data, float mean, float std);
};

}  // namespace flambeau
