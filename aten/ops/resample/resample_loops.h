#pragma once
// The loops behind weighted sums along one dimension, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::resample {

struct Loops {
  // out[j] = sum over the taps t of weight[t] * in[index[t] * inner + j], for j < inner.
  void (*row)(int64_t inner, int64_t taps, const int64_t* index, const void* weight, const void* in,
              void* out);
  // out[r, o] = sum over the taps of o; rows of n inputs and m outputs.
  void (*rows)(int64_t rows, int64_t n, int64_t m, int64_t per_output, const int64_t* first,
               const int64_t* index, const void* weight, const void* in, void* out);
};

}  // namespace flambeau::resample
