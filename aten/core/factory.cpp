#include "aten/core/factory.h"

#include <cstring>

#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "c10/core/thread_state.h"

namespace flambeau {
namespace {

Tensor over_new_storage(int64_t elements, IntArrayRef sizes, ScalarType dtype, Device device) {
  int64_t bytes = 0;
  const auto item = static_cast<int64_t>(element_size(dtype));
  check(!__builtin_mul_overflow(elements, item, &bytes),
        "Storage size calculation overflowed: sizes ", sizes);
  auto storage = make_intrusive<StorageImpl>(static_cast<size_t>(bytes), device);
  const Device placed = storage->device();  // with an index
  auto impl = make_intrusive<TensorImpl>(std::move(storage), dtype, placed);
  if (thread_state.inference_mode) [[unlikely]] {
    impl->set_inference(true);
    // Outside of inference mode the key leads to the wrappers, which refuse to change the tensor.
    impl->add_keys(DispatchKey::Autograd);
  }
  return Tensor(std::move(impl));
}

}  // namespace

Tensor empty_tensor(IntArrayRef sizes, ScalarType dtype, Device device) {
  Tensor t = over_new_storage(numel_of(sizes), sizes, dtype, device);
  t.impl()->set_contiguous_sizes(sizes);
  return t;
}

Tensor empty_strided_tensor(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype,
                            Device device) {
  check(sizes.size() == strides.size(), LengthMismatch{sizes, strides});
  Tensor t = over_new_storage(extent_of(sizes, strides), sizes, dtype, device);
  t.impl()->set_geometry(sizes, strides, 0);
  return t;
}

Tensor empty_like_tensor(const Tensor& self) { return empty_like_tensor(self, self.dtype()); }

Tensor empty_like_tensor(const Tensor& self, ScalarType dtype) {
  const DimVector strides = self.is_contiguous() ? DimVector() : preserved_strides(self);
  if (strides.empty()) return empty_tensor(self.sizes(), dtype, self.device());
  return empty_strided_tensor(self.sizes(), strides, dtype, self.device());
}

Tensor zeros_tensor(IntArrayRef sizes, ScalarType dtype, Device device) {
  Tensor t = empty_tensor(sizes, dtype, device);
  if (t.numel() == 0 || device.is_meta()) return t;
  if (device.is_cpu()) {
    std::memset(t.data(), 0, t.storage()->nbytes());
  } else {
    fill_with(t, 0);
  }
  return t;
}

Tensor scalar_tensor(const Scalar& value, ScalarType dtype, Device device) {
  Tensor t = empty_tensor({}, dtype, device);
  if (device.is_cpu()) {
    value.store(dtype, t.data());
  } else if (!device.is_meta()) {
    fill_with(t, value);
  }
  return t;
}

Tensor wrapped_number_tensor(const Scalar& value) {
  Tensor t = scalar_tensor(value, value.is_floating()  ? ScalarType::Float64
                                  : value.is_complex() ? ScalarType::Complex128
                                                       : value.dtype());
  t.impl()->set_wrapped_number(true);
  return t;
}

}  // namespace flambeau
