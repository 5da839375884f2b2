#pragma once
// A vector of trivially copyable elements whose first N live inline.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

#include "c10/core/array_ref.h"

namespace flambeau::c10 {

template <typename T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(size_t n, T value = T{}) { resize(n, value); }
  SmallVector(std::initializer_list<T> l) { assign(l.begin(), l.size()); }
  SmallVector(ArrayRef<T> a) { assign(a.data(), a.size()); }  // NOLINT(google-explicit-constructor)
  SmallVector(const SmallVector& o) { assign(o.data(), o.size_); }
  SmallVector(SmallVector&& o) noexcept { steal(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) assign(o.data(), o.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  void clear() { size_ = 0; }
  void pop_back() { --size_; }

  void push_back(T value) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    data_[size_++] = value;
  }
  void insert(size_t at, T value) {
    push_back(value);
    std::memmove(static_cast<void*>(data_ + at + 1), data_ + at, (size_ - 1 - at) * sizeof(T));
    data_[at] = value;
  }
  void erase(size_t at) {
    std::memmove(static_cast<void*>(data_ + at), data_ + at + 1, (size_ - 1 - at) * sizeof(T));
    --size_;
  }
  void resize(size_t n, T value = T{}) {
    reserve(n);
    for (size_t i = size_; i < n; ++i) data_[i] = value;
    size_ = n;
  }
  // Elements beyond the old size are unset.
  void resize_unset(size_t n) {
    reserve(n);
    size_ = n;
  }
  void reserve(size_t n) {
    if (n <= capacity_) return;
    if (n < capacity_ * 2) n = capacity_ * 2;
    T* grown = n > PTRDIFF_MAX / sizeof(T) ? nullptr : static_cast<T*>(std::malloc(n * sizeof(T)));
    if (!grown) throw std::bad_alloc();
    if (size_) std::memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
    if (data_ != inline_) std::free(data_);
    data_ = grown;
    capacity_ = n;
  }
  void assign(const T* source, size_t n) {
    size_ = 0;
    reserve(n);
    if (n <= N) {
      for (size_t i = 0; i < n; ++i) {
        data_[i] = source[i];
        asm volatile("");  // keeps GCC from calling memcpy for a handful of words
      }
    } else {
      std::memcpy(static_cast<void*>(data_), source, n * sizeof(T));
    }
    size_ = n;
  }

  operator ArrayRef<T>() const {
    return ArrayRef<T>(data_, size_);
  }  // NOLINT(google-explicit-constructor)
  ArrayRef<T> ref() const { return ArrayRef<T>(data_, size_); }
  friend bool operator==(const SmallVector& a, const SmallVector& b) { return a.ref() == b.ref(); }
  friend bool operator==(ArrayRef<T> a, const SmallVector& b) { return a == b.ref(); }

 private:
  void release() {
    if (data_ != inline_) std::free(data_);
    data_ = inline_;
    capacity_ = N;
    size_ = 0;
  }
  void steal(SmallVector& o) noexcept {
    if (o.data_ == o.inline_) {
      data_ = inline_;
      capacity_ = N;
      size_ = o.size_;
      for (size_t i = 0; i < size_; ++i) {
        inline_[i] = o.inline_[i];
        asm volatile("");
      }
    } else {
      data_ = std::exchange(o.data_, o.inline_);
      capacity_ = std::exchange(o.capacity_, N);
      size_ = o.size_;
    }
    o.size_ = 0;
  }

  T* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = N;
  T inline_[N];
};

using DimVector = SmallVector<int64_t, 5>;

template <typename T, size_t N>
void append_text(std::string& out, const SmallVector<T, N>& values) {
  append_text(out, values.ref());
}

}  // namespace flambeau::c10
