#pragma once
// Tensors that may be absent, without a count of their own.
#include "api/maybe_owned.h"
#include "api/tensor.h"

namespace flambeau::api {

// It must not outlive the tensor that it is made of.
class OptionalTensorRef {
 public:
  OptionalTensorRef() = default;
  OptionalTensorRef(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  OptionalTensorRef(const Tensor& tensor) : tensor_(&tensor) {  // NOLINT
    check(tensor.defined(), "OptionalTensorRef: expected a defined tensor, got an undefined one");
  }
  bool has_value() const { return tensor_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  // RuntimeError where there is none.
  const Tensor& getTensorRef() const {
    check(has_value(), "OptionalTensorRef: expected a tensor, got none");
    return *tensor_;
  }
  const Tensor& operator*() const { return getTensorRef(); }
  const Tensor* operator->() const { return &getTensorRef(); }

 private:
  const Tensor* tensor_ = nullptr;
};

// What an optional tensor holds, or an undefined tensor.
inline MaybeOwned<Tensor> borrow_from_optional_tensor(const std::optional<Tensor>& maybe) {
  return maybe ? MaybeOwned<Tensor>::borrowed(*maybe) : MaybeOwned<Tensor>::owned(Tensor());
}

}  // namespace flambeau::api
