#pragma once
// A block of bytes shared by a tensor and its views, with the version counter they share.
#include "c10/core/allocator.h"
#include "c10/core/intrusive_ptr.h"

namespace flambeau::c10 {

class StorageImpl final : public RefCounted {
 public:
  // Allocates `nbytes` from the device's allocator (none for Meta).
  StorageImpl(size_t nbytes, Device device);
  // Wraps foreign memory; `release(context)` runs when the storage dies.
  StorageImpl(void* data, size_t nbytes, Device device, void (*release)(void*), void* context);
  ~StorageImpl() override;

  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  // Whether the memory may move: it is ours, and nobody outside holds its address.
  bool resizable() const {
    return release_ == nullptr && pins_.load(std::memory_order_acquire) == 0;
  }
  // Grows or shrinks, keeping the common prefix; fails unless resizable.
  void resize(size_t nbytes);

  // While pinned, the memory stays where it is: NumPy, DLPack and the buffer protocol hold its
  // address. Who pins also keeps a reference to the storage.
  void pin() { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() { pins_.fetch_sub(1, std::memory_order_release); }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void release_resources() override;
  void free_data() noexcept;

  void* data_ = nullptr;
  size_t nbytes_ = 0;
  void (*release_)(void*) = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> version_{0};
  std::atomic<uint32_t> pins_{0};
  Device device_;
};

using Storage = intrusive_ptr<StorageImpl>;

}  // namespace flambeau::c10
