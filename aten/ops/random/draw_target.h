#pragma once
// Where random numbers go. PyTorch draws for the elements as they lie in memory, not row by row,
// and for a complex number as for two real ones.
#include "aten/core/factory.h"

namespace flambeau {

class DrawTarget {
 public:
  explicit DrawTarget(const Tensor& self);
  // Row-major: to be filled from front to back.
  const Tensor& buffer() const { return buffer_; }
  // `other`, of the same sizes as self, row-major in the same order.
  Tensor in_order(const Tensor& other) const;
  // Brings the buffer's elements to self.
  void commit() const;

 private:
  Tensor permuted(const Tensor& t) const;

  DimVector order_;  // self's dimensions, outermost first
  Tensor target_;    // self, permuted and real
  Tensor buffer_;
};

// `self` with an added last dimension of real and imaginary parts; a real tensor as it is.
Tensor as_real(const Tensor& self);

}  // namespace flambeau
