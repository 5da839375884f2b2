#pragma once
// Kernels over fibers: a loop over all dimensions but one, and the elements along that one.
#include "call.h"

namespace flambeau_opencl {

// Arrays of one shape, seen as fibers along a dimension; a tensor without dimensions is one fiber
// of one element. As in the kernels.
struct Fibers {
  Geometry outer;
  int64_t size = 1;
  int64_t steps[kMaxArrays] = {};  // from one element of a fiber to the next

  // `size` is the first array's; the others may have another one along `dim`. Nothing where they
  // have too many dimensions.
  static std::optional<Fibers> of(const std::vector<Tensor>& arrays, int64_t dim);
};

// OpenCL C: the type Fibers, and start_of(fibers, fiber, array), where a fiber begins.
std::string fibers_text();
// The argument `dim` of a call for a tensor of `rank` dimensions; nothing where it is out of range.
std::optional<int64_t> wrapped_dim(const Call& call, int64_t rank);

}  // namespace flambeau_opencl
