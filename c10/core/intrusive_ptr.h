#pragma once
// Shared ownership with the count inside the object, and weak references.
// A strong count of n holds one weak count together; the memory goes with the last weak count.
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  uint32_t use_count() const {
    return static_cast<uint32_t>(counts_.load(std::memory_order_acquire));
  }
  void retain() const { counts_.fetch_add(kStrong, std::memory_order_relaxed); }
  void release() const {
    // A sole owner without weak references races with nobody: no locked instruction is needed.
    if (counts_.load(std::memory_order_acquire) == (kStrong | kWeak)) {
      delete this;
      return;
    }
    const uint64_t before = counts_.fetch_sub(kStrong, std::memory_order_acq_rel);
    if (static_cast<uint32_t>(before) == 1) [[unlikely]]
      expire();
  }
  void retain_weak() const { counts_.fetch_add(kWeak, std::memory_order_relaxed); }
  void release_weak() const {
    // A lone weak count cannot be raised by anyone else, so no atomic decrement is needed.
    if (counts_.load(std::memory_order_acquire) == kWeak ||
        counts_.fetch_sub(kWeak, std::memory_order_acq_rel) == kWeak) {
      delete this;
    }
  }
  // Strong reference from a weak one; false when the object has expired.
  bool try_retain() const {
    uint64_t n = counts_.load(std::memory_order_relaxed);
    while (static_cast<uint32_t>(n) != 0) {
      if (counts_.compare_exchange_weak(n, n + kStrong, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

 protected:
  virtual ~RefCounted() = default;
  // Drops what the object owns when the last strong reference goes while weak ones remain.
  virtual void release_resources() {}

 private:
  // The last strong reference is gone. Out of line: every release of every handle would repeat it.
  [[gnu::cold]] void expire() const;

  // Both counts in one word, so that one load sees whether the owner is alone.
  static constexpr uint64_t kStrong = 1;
  static constexpr uint64_t kWeak = uint64_t{1} << 32;
  mutable std::atomic<uint64_t> counts_{kStrong | kWeak};
};

template <typename T>
class intrusive_ptr {
 public:
  constexpr intrusive_ptr() = default;
  constexpr intrusive_ptr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  intrusive_ptr(const intrusive_ptr& o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  intrusive_ptr(intrusive_ptr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <typename U>
    requires std::convertible_to<U*, T*>
  intrusive_ptr(intrusive_ptr<U> o) noexcept : p_(o.detach()) {}  // NOLINT
  intrusive_ptr& operator=(intrusive_ptr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~intrusive_ptr() {
    if (p_) p_->release();
  }

  // Takes over a count that the caller holds.
  static intrusive_ptr adopt(T* p) {
    intrusive_ptr r;
    r.p_ = p;
    return r;
  }
  // Adds a count of its own.
  static intrusive_ptr share(T* p) {
    if (p) p->retain();
    return adopt(p);
  }
  T* detach() { return std::exchange(p_, nullptr); }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  void reset() { *this = intrusive_ptr(); }
  friend bool operator==(const intrusive_ptr& a, const intrusive_ptr& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

template <typename T, typename... Args>
intrusive_ptr<T> make_intrusive(Args&&... args) {
  return intrusive_ptr<T>::adopt(new T(std::forward<Args>(args)...));
}

template <typename T>
class weak_intrusive_ptr {
 public:
  weak_intrusive_ptr() = default;
  explicit weak_intrusive_ptr(const intrusive_ptr<T>& p) : p_(p.get()) {
    if (p_) p_->retain_weak();
  }
  weak_intrusive_ptr(const weak_intrusive_ptr& o) : p_(o.p_) {
    if (p_) p_->retain_weak();
  }
  weak_intrusive_ptr(weak_intrusive_ptr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  weak_intrusive_ptr& operator=(weak_intrusive_ptr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~weak_intrusive_ptr() {
    if (p_) p_->release_weak();
  }
  intrusive_ptr<T> lock() const {
    return p_ && p_->try_retain() ? intrusive_ptr<T>::adopt(p_) : intrusive_ptr<T>();
  }
  bool expired() const { return !p_ || p_->use_count() == 0; }
  T* unsafe_get() const { return p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace flambeau::c10
