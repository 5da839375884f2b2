#pragma once
// Sizes and strides of one tensor, inline up to five dimensions.
#include "c10/core/check.h"
#include "c10/core/small_vector.h"

namespace flambeau::c10 {

class SizesAndStrides {
 public:
  size_t dim() const { return sizes_.size(); }
  IntArrayRef sizes() const { return sizes_; }
  IntArrayRef strides() const { return strides_; }
  int64_t size(size_t d) const { return sizes_[d]; }
  int64_t stride(size_t d) const { return strides_[d]; }
  void set(IntArrayRef sizes, IntArrayRef strides) {
    sizes_.assign(sizes.data(), sizes.size());
    strides_.assign(strides.data(), strides.size());
  }
  // Row-major strides for `sizes`.
  void set_contiguous(IntArrayRef sizes) {
    sizes_.assign(sizes.data(), sizes.size());
    strides_.resize_unset(sizes.size());
    int64_t step = 1;
    bool overflow = false;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides_[d] = step;
      if (d > 0) overflow |= __builtin_mul_overflow(step, sizes[d] > 1 ? sizes[d] : 1, &step);
    }
    check(!overflow, "Stride calculation overflowed with sizes=", sizes);
  }

 private:
  DimVector sizes_;
  DimVector strides_;
};

}  // namespace flambeau::c10
