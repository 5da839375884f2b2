#pragma once
// A block of bytes shared by a tensor and its views, with the version counter they share.
// A storage and its lazy clones read one block of memory until one of them is written (ADR 6).
#include "c10/core/allocator.h"
#include "c10/core/intrusive_ptr.h"

namespace flambeau::c10 {

// Memory of several storages that none of them may write.
struct SharedBlock;

class StorageImpl final : public RefCounted {
 public:
  // Allocates `nbytes` from the device's allocator (none for Meta). Memory of an out-of-tree device
  // comes from its backend; without an index it is the current device of the thread.
  StorageImpl(size_t nbytes, Device device);
  // Wraps foreign memory; `release(context)` runs when the storage dies.
  StorageImpl(void* data, size_t nbytes, Device device, void (*release)(void*), void* context);
  ~StorageImpl() override;

  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);

  // For reading. Code that writes calls `make_writable` first. Always nullptr on an out-of-tree
  // device, so that no kernel of the host reads its memory by mistake.
  void* data() const { return data_.load(std::memory_order_relaxed); }
  // What the backend of an out-of-tree device allocated; nullptr on other devices.
  void* device_data() const { return device_data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  // Whether the memory may move: it is ours, and nobody outside holds its address.
  bool resizable() const {
    return release_ == nullptr && pins_.load(std::memory_order_acquire) == 0;
  }
  // Grows or shrinks, keeping the common prefix; fails unless resizable.
  void resize(size_t nbytes);

  // While pinned, the memory stays where it is: NumPy, DLPack and the buffer protocol hold its
  // address, and may write. Code that pins a storage also keeps a reference to it.
  void pin() {
    make_writable();
    pins_.fetch_add(1, std::memory_order_relaxed);
  }
  void unpin() { pins_.fetch_sub(1, std::memory_order_release); }

  // A storage of equal bytes, which shares the memory until either of the two is written. A null
  // pointer where that is impossible: the memory is not ours, or its address is held outside.
  intrusive_ptr<StorageImpl> lazy_clone();
  // Whether the memory is, or was, shared with a lazy clone: the next write takes it or copies it.
  bool is_copy_on_write() const { return shared_.load(std::memory_order_acquire) != nullptr; }
  // Gives the storage memory of its own. Comes before each write and each export of the address.
  void make_writable() {
    if (is_copy_on_write()) [[unlikely]]
      copy_memory();
  }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void release_resources() override;
  void free_data() noexcept;
  SharedBlock* hold_or_take_block();
  void copy_memory();
  void resize_on_device(size_t nbytes);

  std::atomic<void*> data_ = nullptr;
  void* device_data_ = nullptr;
  size_t nbytes_ = 0;
  void (*release_)(void*) = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> version_{0};
  std::atomic<uint32_t> pins_{0};
  std::atomic<SharedBlock*> shared_{nullptr};
  Device device_;
};

using Storage = intrusive_ptr<StorageImpl>;

}  // namespace flambeau::c10
