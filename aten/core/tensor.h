#pragma once
// Tensor: a handle to a TensorImpl. Operators are free structs in flambeau::ops (generated); a
// class with PyTorch-style methods for C++ users is generated on top (torchgen_out/aten/api.h).
#include "c10/core/dtype_dispatch.h"
#include "c10/core/generator.h"
#include "c10/core/scalar.h"
#include "c10/core/tensor_impl.h"

namespace flambeau {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(intrusive_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  const intrusive_ptr<TensorImpl>& impl_ptr() const { return impl_; }
  intrusive_ptr<TensorImpl> take_impl() { return std::move(impl_); }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }
  void reset() { impl_.reset(); }

  IntArrayRef sizes() const { return impl_->sizes(); }
  IntArrayRef strides() const { return impl_->strides(); }
  // `d` counts from the back when negative; no check.
  int64_t size(int64_t d) const { return sizes()[static_cast<size_t>(d < 0 ? d + dim() : d)]; }
  int64_t stride(int64_t d) const { return strides()[static_cast<size_t>(d < 0 ? d + dim() : d)]; }
  int64_t dim() const { return impl_->dim(); }
  int64_t numel() const { return impl_->numel(); }
  int64_t storage_offset() const { return impl_->storage_offset(); }
  ScalarType dtype() const { return impl_->dtype(); }
  Device device() const { return impl_->device(); }
  DispatchKeySet keys() const { return impl_->keys(); }
  Layout layout() const { return keys().has(kSparseKey) ? Layout::SparseCoo : Layout::Strided; }
  const Storage& storage() const { return impl_->storage(); }
  bool is_contiguous() const { return impl_->is_contiguous(); }
  bool is_contiguous(MemoryFormat f) const { return impl_->is_contiguous(f); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_complex() const { return is_complex_type(dtype()); }
  bool is_floating_point() const { return is_floating_type(dtype()); }
  // Views whose elements are the conjugates or negatives of what memory holds.
  bool is_conj() const { return keys().has(DispatchKey::Conjugate); }
  bool is_neg() const { return keys().has(DispatchKey::Negative); }
  bool requires_grad() const { return keys().has(DispatchKey::Autograd); }

  void* data() const { return impl_->data(); }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(impl_->data());
  }

 private:
  intrusive_ptr<TensorImpl> impl_;
};

using TensorList = ArrayRef<Tensor>;

// Ends the sharing of memory with lazy clones. Each generated function calls it first for what its
// schema marks as written, `copy_into` for its target; other code that writes calls it itself.
inline void make_writable(const Tensor& written) {
  if (written.defined()) written.storage()->make_writable();
}
inline void make_writable(TensorList written) {
  for (const Tensor& t : written) make_writable(t);
}

}  // namespace flambeau
