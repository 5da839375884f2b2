#include "aten/ops/random/draw_target.h"

#include <utility>

#include "aten/core/view.h"

namespace flambeau {

Tensor as_real(const Tensor& self) {
  if (!self.is_complex()) return self;
  ViewGeometry parts{self.sizes(), self.strides(), self.storage_offset() * 2,
                     to_real_type(self.dtype())};
  for (int64_t& stride : parts.strides) stride *= 2;
  parts.sizes.push_back(2);
  parts.strides.push_back(1);
  return plain_view(self, parts);
}

DrawTarget::DrawTarget(const Tensor& self) {
  const Tensor real = as_real(self);
  // Insertion keeps the given order of dimensions with equal strides, unless the outer one is
  // shorter.
  const auto lies_outside = [&](int64_t a, int64_t b) {
    if (real.is_contiguous()) return false;
    if (real.stride(a) != real.stride(b)) return real.stride(a) > real.stride(b);
    return real.size(a) > real.size(b);
  };
  for (int64_t d = 0; d < real.dim(); ++d) {
    order_.push_back(d);
    for (size_t i = order_.size() - 1; i > 0 && lies_outside(order_[i], order_[i - 1]); --i) {
      std::swap(order_[i], order_[i - 1]);
    }
  }
  target_ = real.is_contiguous() ? real : permuted(real);
  buffer_ = target_.is_contiguous() ? target_ : empty_tensor(target_.sizes(), target_.dtype());
}

Tensor DrawTarget::permuted(const Tensor& t) const {
  ViewGeometry geometry{{}, {}, t.storage_offset()};
  for (const int64_t d : order_) {
    geometry.sizes.push_back(t.size(d));
    geometry.strides.push_back(t.stride(d));
  }
  return plain_view(t, geometry);
}

Tensor DrawTarget::in_order(const Tensor& other) const {
  return contiguous_tensor(permuted(other));
}

void DrawTarget::commit() const {
  if (!buffer_.is_same(target_)) copy_into(target_, buffer_);
}

}  // namespace flambeau
