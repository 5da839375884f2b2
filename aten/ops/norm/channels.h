#pragma once
#include "aten/core/tensor.h"

namespace flambeau::norm {

// Whether all dimensions but the channels are reduced, as batch norm does.
inline bool is_per_channel(const Tensor& t, uint64_t mask) {
  return mask == (((uint64_t{1} << t.dim()) - 1) & ~uint64_t{2});
}

}  // namespace flambeau::norm
