#include "aten/core/view.h"

#include "c10/core/thread_state.h"

namespace flambeau {

void (*note_view)(const Tensor& base, const Tensor& view, bool multi_output) = nullptr;

namespace {

Tensor view_of(const Tensor& self, const ViewGeometry& g, bool multi_output) {
  Tensor view = plain_view(self, g);
  if (self.impl()->is_inference()) {
    view.impl()->set_inference(true);
    view.impl()->add_keys(DispatchKey::Autograd);
  } else if (note_view) {
    note_view(self, view, multi_output);
  }
  return view;
}

}  // namespace

Tensor plain_view(const Tensor& self, const ViewGeometry& g) {
  const ScalarType dtype = g.dtype == ScalarType::Undefined ? self.dtype() : g.dtype;
  Tensor view(make_intrusive<TensorImpl>(self.storage(), dtype, self.device()));
  view.impl()->set_geometry(g.sizes, g.strides, g.storage_offset);
  view.impl()->share_version_counter(*self.impl());
  view.impl()->add_keys((self.keys() & kLazyKeys) ^ g.flips);
  return view;
}

Tensor as_view(const Tensor& self, const ViewGeometry& geometry) {
  return view_of(self, geometry, false);
}

Tensor detached_view(const Tensor& self, const ViewGeometry& geometry) {
  Tensor view = plain_view(self, geometry);
  if (self.impl()->is_inference()) {
    view.impl()->set_inference(true);
    view.impl()->add_keys(DispatchKey::Autograd);
  }
  return view;
}

std::vector<Tensor> as_views(const Tensor& self, const std::vector<ViewGeometry>& geometries) {
  std::vector<Tensor> views;
  views.reserve(geometries.size());
  for (const ViewGeometry& g : geometries) views.push_back(view_of(self, g, true));
  return views;
}

void set_view(Tensor& self, const ViewGeometry& geometry) {
  self.impl()->set_geometry(geometry.sizes, geometry.strides, geometry.storage_offset);
}

}  // namespace flambeau
