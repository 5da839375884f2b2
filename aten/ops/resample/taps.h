#pragma once
// Linear maps along one dimension with few non-zero places: each output element is a weighted sum
// of input elements, its taps. Resizing, padding at edges and their transposes are such maps.
#include <vector>

#include "aten/core/tensor.h"

namespace flambeau::resample {

struct Taps {
  std::vector<int64_t> first;  // output o has the taps first[o] ... first[o + 1] - 1
  std::vector<int64_t> index;  // of each tap: input element
  std::vector<double> weight;  // of each tap; empty: all 1
  int64_t per_output = 0;      // where all outputs have equally many, else 0
  bool copies() const { return weight.empty() && per_output == 1; }
};

// One tap of weight 1 per output.
Taps copying(std::vector<int64_t> index);
// The map from gradients of the outputs to gradients of `in_size` inputs.
Taps transposed(const Taps& taps, int64_t in_size);
// out = taps applied to `self` along `dim`; out is row-major or channels last. Sums are kept in
// float32 for the half types. Maps that copy take every dtype, others floating and complex ones.
void apply(const Taps& taps, const Tensor& self, int64_t dim, const Tensor& out);

}  // namespace flambeau::resample
