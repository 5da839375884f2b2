#pragma once
// Loops over the positions that tensors of indices name.
#include "call.h"

namespace flambeau_opencl {

constexpr int kMaxIndices = kMaxArrays - 2;  // besides the tensor and the values

// Of the indexed dimensions: sizes, and the distance between two elements.
struct Axes {
  int64_t size[kMaxIndices] = {};
  int64_t step[kMaxIndices] = {};
};

// Indices of some dimensions of a tensor, each with its strides along the loops.
struct Positions {
  Axes axes;
  std::vector<Tensor> indices;
  std::vector<std::vector<int64_t>> outer, inner;

  // False: an index has a dtype without a kernel, is on another device than `self`, or out of
  // range. Negative ones are in range if they count from the end. Waits for the device.
  bool add(const Tensor& self, int64_t dim, const Tensor& index, bool from_end,
           std::vector<int64_t> outer_strides, std::vector<int64_t> inner_strides);
};

// The loops of a write: `inner` is over the indices, in order, `outer` over what they leave out.
struct WriteLoops {
  std::vector<int64_t> outer_sizes, inner_sizes;
  std::vector<int64_t> self_outer;  // the tensor that is written
  std::vector<int64_t> values_outer, values_inner;
};

std::vector<int64_t> list_of(IntArrayRef values);
// out <- self at the positions, whose `outer` strides are along the dimensions of `out`.
bool read_at(const Tensor& out, const Tensor& self, std::vector<int64_t> self_strides,
             const Positions& p);
// self <- values at the positions, joined by the text `combine`; "": the values replace.
bool write_at(const Tensor& self, const Tensor& values, const WriteLoops& loops, const Positions& p,
              const std::string& combine);

}  // namespace flambeau_opencl
