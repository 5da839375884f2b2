#pragma once
// A tensor seen as before x positions x after, the shape in which indexing reads and writes: the
// dimensions ahead of the indexed ones, the positions that indices name, the dimensions behind.
#include <vector>

#include "aten/core/tensor.h"

namespace flambeau::indexing {

// Some dimensions of a tensor, outermost first, gapless neighbours joined. Strides in elements.
class Block {
 public:
  void push(int64_t size, int64_t stride);  // the next inner dimension
  int64_t count() const { return count_; }
  int64_t offset(int64_t index) const;
  // The innermost dimension, and where each repetition of it starts.
  int64_t run() const { return sizes_.empty() ? 1 : sizes_.back(); }
  int64_t step() const { return sizes_.empty() ? 1 : strides_.back(); }
  std::vector<int64_t> starts() const;

 private:
  int64_t count_ = 1;
  DimVector sizes_;
  DimVector strides_;
};

struct Places {
  Block before;
  std::vector<int64_t> offsets;  // of each position, in elements
  Block after;
};

// What indexing by several tensors gives.
struct Plan {
  DimVector index_sizes;   // of the indices, broadcast
  DimVector result_sizes;  // index_sizes in place of the indexed dimensions, or ahead of all others
  size_t dims_before = 0;  // where index_sizes go
};
// IndexError where indices do not fit `self` or one another.
Plan plan_of(const Tensor& self, TensorList indices);
// IndexError "index 5 is out of bounds for dimension 0 with size 3"; negative indices count from the end.
Places places_of(const Tensor& self, TensorList indices, const Plan& plan);

// One dimension (a 0-dim tensor has one of size 1) indexed by a vector. `locate(index, size)` checks one
// index and gives its position.
template <typename Locate>
Places slices_of(const Tensor& self, int64_t dim, const Tensor& index, const Locate& locate);

namespace detail {
// All but the offsets.
Places around(const Tensor& self, int64_t dim);
Tensor as_int64(const Tensor& index);
}  // namespace detail

template <typename Locate>
Places slices_of(const Tensor& self, int64_t dim, const Tensor& index, const Locate& locate) {
  Places places = detail::around(self, dim);
  const int64_t size = self.dim() ? self.size(dim) : 1, stride = self.dim() ? self.stride(dim) : 1;
  const Tensor positions = detail::as_int64(index);
  const int64_t* const data = positions.data_as<int64_t>();
  places.offsets.resize(static_cast<size_t>(positions.numel()));
  for (size_t i = 0; i < places.offsets.size(); ++i) places.offsets[i] = locate(data[i], size) * stride;
  return places;
}

// RuntimeError where the two certainly share elements; a copy where that is too hard to tell.
Tensor apart_from(const Tensor& self, const Tensor& source);
// RuntimeError where elements of `self` certainly share memory.
void check_writable(const Tensor& self);

}  // namespace flambeau::indexing
