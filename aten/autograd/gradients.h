#pragma once
// The gradients that enter or leave one node: up to four inline, no allocation on the usual path.
#include <memory>

#include "aten/core/tensor.h"

namespace flambeau::autograd {

class Gradients {
 public:
  Gradients() = default;
  explicit Gradients(size_t n) { resize(n); }
  Gradients(Gradients&& o) noexcept { steal(o); }
  Gradients& operator=(Gradients&& o) noexcept {
    if (this != &o) {
      clear();
      steal(o);
    }
    return *this;
  }
  Gradients(const Gradients& o) {
    resize(o.size_);
    for (size_t i = 0; i < size_; ++i) (*this)[i] = o[i];
  }
  Gradients& operator=(const Gradients& o) { return *this = Gradients(o); }

  size_t size() const { return size_; }
  Tensor* data() { return heap_ ? heap_.get() : inline_; }
  const Tensor* data() const { return heap_ ? heap_.get() : inline_; }
  Tensor& operator[](size_t i) { return data()[i]; }
  const Tensor& operator[](size_t i) const { return data()[i]; }
  Tensor* begin() { return data(); }
  Tensor* end() { return data() + size_; }
  const Tensor* begin() const { return data(); }
  const Tensor* end() const { return data() + size_; }

  // Keeps the first min(size, n) tensors; the others are undefined.
  void resize(size_t n) {
    for (size_t i = n; i < size_; ++i) data()[i].reset();
    if (n > capacity()) grow(n);
    size_ = static_cast<uint32_t>(n);
  }
  void push_back(Tensor t) {
    resize(size_ + 1);
    data()[size_ - 1] = std::move(t);
  }
  void clear() {
    for (size_t i = 0; i < size_; ++i) data()[i].reset();
    size_ = 0;
  }
  operator TensorList() const { return {data(), size_}; }  // NOLINT(google-explicit-constructor)

 private:
  static constexpr uint32_t kInline = 4;
  size_t capacity() const { return heap_ ? capacity_ : kInline; }
  void grow(size_t n) {
    const size_t capacity = n < 2 * this->capacity() ? 2 * this->capacity() : n;
    auto heap = std::make_unique<Tensor[]>(capacity);
    for (size_t i = 0; i < size_; ++i) heap[i] = std::move(data()[i]);
    heap_ = std::move(heap);
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void steal(Gradients& o) noexcept {
    size_ = o.size_;
    capacity_ = o.capacity_;
    heap_ = std::move(o.heap_);
    if (!heap_) {
      for (size_t i = 0; i < size_; ++i) inline_[i] = std::move(o.inline_[i]);
    }
    o.size_ = 0;
  }

  Tensor inline_[kInline];
  std::unique_ptr<Tensor[]> heap_;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace flambeau::autograd
