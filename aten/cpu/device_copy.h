#pragma once
// Copies and fills where a tensor is on an out-of-tree device.
#include "aten/core/tensor.h"

namespace flambeau {

inline bool is_private(const Tensor& t) { return t.device().type == DeviceType::PrivateUse1; }

// The bytes between the first and the last element of a tensor on an out-of-tree device.
struct DeviceSpan {
  size_t offset;
  size_t bytes;
};
// Error(Runtime) where the storage is smaller than the tensor.
DeviceSpan span_of(const Tensor& t);
// Between that part of the device's memory and the host's.
void download(const Tensor& from, void* host);
void upload(const void* host, const Tensor& to);

// A CPU tensor of the same sizes, strides, dtype and pending conjugation or negation.
Tensor host_copy(const Tensor& t);
// self <- source; at least one of them is on an out-of-tree device, and source expands to self.
void copy_across(const Tensor& self, const Tensor& source);
// Writes one element of the dtype of `self` into all of its elements.
void fill_on_device(const Tensor& self, const void* item);

}  // namespace flambeau
