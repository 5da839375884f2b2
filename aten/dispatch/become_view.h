#pragma once
// In-place forms of views under function transforms.
#include "aten/core/tensor.h"

namespace flambeau {

// `self`, a transform's tensor, sees what `view` sees, a view of `self` of the same transform.
inline void become_view(Tensor& self, const Tensor& view) {
  check(self.impl()->wrapper() && view.impl()->wrapper(), "expected tensors of a transform");
  self.impl()->set_wrapper(intrusive_ptr<WrapperBase>::share(view.impl()->wrapper()));
  self.impl()->set_geometry(view.sizes(), view.strides(), view.storage_offset());
}

}  // namespace flambeau
