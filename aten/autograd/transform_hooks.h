#pragma once
// What autograd must ask of function transforms, which lie above it; set by aten/transforms.
#include "aten/core/tensor.h"

namespace flambeau::autograd {

// Whether a wrapper belongs to a layer of forward mode. Its tangent is then the layer's, and the
// level of forward_ad may end without touching it.
extern bool (*belongs_to_jvp)(const TensorImpl& impl);

// Whether every vmap that `value` is batched in has a batch in `target` too, so that the one can be
// written into the other.
extern bool (*can_hold)(const Tensor& target, const Tensor& value);

// Moves the calling thread's layers into `box` if it is empty, else out of it: a pass that goes on
// on another thread takes them along.
extern void (*move_layers)(void*& box);

}  // namespace flambeau::autograd
