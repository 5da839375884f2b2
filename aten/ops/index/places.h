#pragma once
// A tensor seen as before x positions x after, the shape in which indexing reads and writes: the
// dimensions ahead of the indexed ones, the positions that indices name, the dimensions behind.
#include <optional>
#include <vector>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"

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
  Tensor offsets;  // int64, gapless: of each position, in elements
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
// IndexError "index 5 is out of bounds: ..."; negative indices count from the end.
Places places_of(const Tensor& self, TensorList indices, const Plan& plan);
// The same for a result that lies in memory in another order; nullopt where that parts or turns the
// dimensions of the indices, so that no three blocks describe it.
std::optional<Places> places_in_order_of(const Tensor& result, const Tensor& self,
                                         TensorList indices, const Plan& plan);
// Dense strides of the result in the order of self's other dimensions and of the indices; empty
// when that is row-major.
DimVector result_strides(const Tensor& self, TensorList indices, const Plan& plan);

// What lies around one dimension (of a 0-dim tensor: nothing); offsets are left out.
Places around(const Tensor& self, int64_t dim);
// A row-major int64 tensor.
Tensor as_positions(const Tensor& index);

enum class Negative : bool { Invalid, FromEnd };

// One dimension (a 0-dim tensor has one of size 1) indexed by a vector. `inspect(index, size)`
// fails for an index outside the dimension.
template <typename Inspect>
Places slices_of(const Tensor& self, int64_t dim, const Tensor& index, Negative negative,
                 const Inspect& inspect) {
  Places places = around(self, dim);
  const int64_t size = self.dim() ? self.size(dim) : 1, stride = self.dim() ? self.stride(dim) : 1;
  const Tensor positions = as_positions(index);
  // Positions of neighbours are offsets already.
  const bool as_is = stride == 1 && negative == Negative::Invalid;
  places.offsets = as_is ? positions : empty_like_tensor(positions);
  const int64_t* const from = positions.data_as<int64_t>();
  int64_t* const to = places.offsets.data_as<int64_t>();
  parallel_for(0, positions.numel(), 4, [&](int64_t begin, int64_t end) {
    // The sign bit of `outside` tells of all at once whether one is.
    const uint64_t reach = negative == Negative::FromEnd ? static_cast<uint64_t>(size) : 0;
    const auto last = static_cast<uint64_t>(size) - 1;
    uint64_t outside = 0;
#pragma omp simd reduction(| : outside)
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<uint64_t>(from[i]);
      outside |= (at + reach) | (last - at);
    }
    for (int64_t i = begin; outside >> 63 && i < end; ++i) inspect(from[i], size);
    if (as_is) return;
    for (int64_t i = begin; i < end; ++i) to[i] = (from[i] < 0 ? from[i] + size : from[i]) * stride;
  });
  return places;
}

// RuntimeError where the two certainly share elements; a copy where that is too hard to tell.
Tensor apart_from(const Tensor& self, const Tensor& source);
// RuntimeError where elements of `self` certainly share memory.
void check_writable(const Tensor& self);

}  // namespace flambeau::indexing
