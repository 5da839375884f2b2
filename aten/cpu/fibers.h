#pragma once
// 1-D slices of a tensor along one dimension, numbered row-major over the other dimensions.
#include "aten/core/tensor.h"

namespace flambeau {

template <typename T>
struct Fiber {
  T* data;
  int64_t size;
  int64_t stride;
  T& operator[](int64_t i) const { return data[i * stride]; }
  bool contiguous() const { return stride == 1; }
};

// A row-major tensor as outer x size x inner, `size` along one dimension: fiber (o, j) has its
// element i at (o * size + i) * inner + j.
struct FiberGrid {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  // `dim` counts from the back when negative; 0-dim tensors are one fiber of one element.
  FiberGrid(IntArrayRef sizes, int64_t dim) {
    if (sizes.empty()) return;
    const size_t along =
        static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim);
    size = sizes[along];
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != along) (d < along ? outer : inner) *= sizes[d];
    }
  }
  int64_t fibers() const { return outer * inner; }
};

template <typename T>
class Fibers {
 public:
  // `dim` counts from the back when negative. A 0-dim tensor is one fiber of one element.
  Fibers(const Tensor& t, int64_t dim) : data_(t.data_as<T>()) {
    if (t.dim() == 0) return;
    const size_t along = static_cast<size_t>(dim < 0 ? dim + t.dim() : dim);
    size_ = t.sizes()[along];
    stride_ = t.strides()[along];
    for (size_t d = 0; d < t.sizes().size(); ++d) {
      if (d == along || t.sizes()[d] == 1) continue;
      sizes_.push_back(t.sizes()[d]);
      strides_.push_back(t.strides()[d]);
      count_ *= t.sizes()[d];
    }
  }
  int64_t count() const { return count_; }
  int64_t size() const { return size_; }
  int64_t stride() const { return stride_; }
  Fiber<T> operator[](int64_t index) const {
    int64_t offset = 0;
    for (size_t d = sizes_.size(); d-- > 0;) {
      offset += (index % sizes_[d]) * strides_[d];
      index /= sizes_[d];
    }
    return {data_ + offset, size_, stride_};
  }

 private:
  T* data_;
  int64_t size_ = 1;
  int64_t stride_ = 1;
  int64_t count_ = 1;
  DimVector sizes_;
  DimVector strides_;
};

}  // namespace flambeau
