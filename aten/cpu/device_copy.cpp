#include "aten/cpu/device_copy.h"

#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "c10/core/device_backend.h"

namespace flambeau {
namespace {

DispatchKeySet lazy_keys(const Tensor& t) { return t.keys() & kLazyKeys; }

// A CPU tensor with memory for the span of `t` alone.
Tensor uninitialized_mirror(const Tensor& t) {
  Tensor host = empty_strided_tensor(t.sizes(), t.strides(), t.dtype(), DeviceType::CPU);
  host.impl()->add_keys(lazy_keys(t));
  return host;
}

// Strides of `t` after it is expanded to `sizes`.
DimVector expanded_strides(const Tensor& t, IntArrayRef sizes) {
  DimVector strides(sizes.size(), 0);
  const size_t lead = sizes.size() - static_cast<size_t>(t.dim());
  for (size_t d = lead; d < sizes.size(); ++d) {
    const auto own = static_cast<int64_t>(d - lead);
    strides[d] = t.size(own) == 1 && sizes[d] != 1 ? 0 : t.stride(own);
  }
  return strides;
}

c10::DeviceElements elements_of(const Tensor& t, IntArrayRef sizes, IntArrayRef strides) {
  return {
      t.storage()->device_data(), t.storage_offset(), t.dtype(), sizes, strides, t.device().index};
}

// Whether the backend has moved the elements without the host.
bool copied_on_device(const Tensor& self, const Tensor& source) {
  if (!is_private(self) || !is_private(source) || lazy_keys(self) != lazy_keys(source))
    return false;
  if (overlap_of(self, source) != Overlap::No) return false;
  const DeviceSpan to = span_of(self), from = span_of(source);
  const bool same_bytes = self.dtype() == source.dtype() && self.sizes() == source.sizes() &&
                          self.strides() == source.strides() &&
                          self.impl()->is_non_overlapping_and_dense();
  c10::DeviceBackend& backend = c10::require_private_backend();
  if (same_bytes) {
    backend.copy_bytes(self.storage()->device_data(), to.offset, self.device().index,
                       source.storage()->device_data(), from.offset, source.device().index,
                       to.bytes);
    return true;
  }
  const DimVector strides = expanded_strides(source, self.sizes());
  return backend.copy_elements(elements_of(self, self.sizes(), self.strides()),
                               elements_of(source, self.sizes(), strides));
}

}  // namespace

DeviceSpan span_of(const Tensor& t) {
  const size_t item = element_size(t.dtype());
  const DeviceSpan span{static_cast<size_t>(t.storage_offset()) * item,
                        static_cast<size_t>(extent_of(t.sizes(), t.strides())) * item};
  check(span.offset + span.bytes <= t.storage()->nbytes(), "expected a storage of at least ",
        span.offset + span.bytes, " bytes for a tensor on ", t.device(), ", got ",
        t.storage()->nbytes());
  return span;
}

void download(const Tensor& from, void* host) {
  const DeviceSpan span = span_of(from);
  if (span.bytes == 0) return;
  c10::require_private_backend().copy_to_host(from.storage()->device_data(), span.offset,
                                              from.device().index, host, span.bytes);
}

void upload(const void* host, const Tensor& to) {
  const DeviceSpan span = span_of(to);
  if (span.bytes == 0) return;
  c10::require_private_backend().copy_from_host(to.storage()->device_data(), span.offset,
                                                to.device().index, host, span.bytes);
}

Tensor host_copy(const Tensor& t) {
  const Tensor host = uninitialized_mirror(t);
  if (t.numel()) download(t, host.data());
  return host;
}

void copy_across(const Tensor& self, const Tensor& source) {
  if (copied_on_device(self, source)) return;
  const Tensor from = is_private(source) ? host_copy(source) : source;
  if (!is_private(self)) return copy_into(self, from);
  const bool is_dense = self.impl()->is_non_overlapping_and_dense();
  const bool same_bytes = is_dense && from.dtype() == self.dtype() &&
                          from.sizes() == self.sizes() && from.strides() == self.strides() &&
                          lazy_keys(from) == lazy_keys(self);
  if (same_bytes) return upload(from.data(), self);
  // Elements between those of a strided tensor are written back as they were.
  const Tensor to = is_dense ? uninitialized_mirror(self) : host_copy(self);
  copy_into(to, from);
  upload(to.data(), self);
}

void fill_on_device(const Tensor& self, const void* item) {
  span_of(self);
  c10::DeviceBackend& backend = c10::require_private_backend();
  if (backend.fill_elements(elements_of(self, self.sizes(), self.strides()), item)) return;
  const Tensor value = empty_tensor({}, self.dtype());
  std::memcpy(value.data(), item, element_size(self.dtype()));
  value.impl()->add_keys(lazy_keys(self));  // the item is what memory is to hold
  copy_across(self, value);
}

}  // namespace flambeau
