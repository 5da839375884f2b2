#pragma once
// Views: new geometry over the same storage.
#include <vector>

#include "aten/core/tensor.h"

namespace flambeau {

struct ViewGeometry {
  DimVector sizes;
  DimVector strides;
  int64_t storage_offset = 0;
  ScalarType dtype = ScalarType::Undefined;  // Undefined: the base's
  DispatchKeySet flips = {};                 // of kLazyKeys: what the view conjugates or negates
};

// A tensor over self's storage. Records the base for autograd through `note_view`.
Tensor as_view(const Tensor& self, const ViewGeometry& geometry);
// The same without a base: no gradient flows, and writing to it leaves histories as they are.
Tensor detached_view(const Tensor& self, const ViewGeometry& geometry);
std::vector<Tensor> as_views(const Tensor& self, const std::vector<ViewGeometry>& geometries);
// Gives `self` the geometry in place (transpose_, squeeze_, ...).
void set_view(Tensor& self, const ViewGeometry& geometry);

// The same for kernels, without autograd.
Tensor plain_view(const Tensor& self, const ViewGeometry& geometry);

// Set by aten/autograd at load: called for every view made outside inference mode.
extern void (*note_view)(const Tensor& base, const Tensor& view, bool multi_output);

}  // namespace flambeau
