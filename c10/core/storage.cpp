#include "c10/core/storage.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "c10/core/device_backend.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/small_blocks.h"

namespace flambeau::c10 {

struct SharedBlock {
  SharedBlock(void* memory, size_t bytes, Device where, uint32_t users)
      : data(memory), nbytes(bytes), device(where), storages(users) {}

  void* data;
  size_t nbytes;
  Device device;
  std::atomic<uint32_t> storages;  // and calls of copy_memory that read it
};

namespace {

// Held while a storage changes what block it shares. Threads may write disjoint views of one
// storage, and only the first of them replaces its memory.
ForkMutex sharing;

void leave(SharedBlock* block) {
  if (block->storages.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (block->data) allocator_of(block->device.type)->deallocate(block->data, block->nbytes);
  delete block;
}

}  // namespace

StorageImpl::StorageImpl(size_t nbytes, Device device) : nbytes_(nbytes), device_(device) {
  if (device.type == DeviceType::PrivateUse1) [[unlikely]] {
    device_ = with_index(device);
    if (nbytes) device_data_ = require_private_backend().allocate(nbytes, device_.index);
  } else if (!device.is_meta()) {
    data_ = allocator_of(device.type)->allocate(nbytes);
  }
}

StorageImpl::StorageImpl(void* data, size_t nbytes, Device device, void (*release)(void*),
                         void* context)
    : data_(data), nbytes_(nbytes), release_(release), context_(context), device_(device) {
  if (device.type != DeviceType::PrivateUse1) return;
  device_ = with_index(device);
  device_data_ = data_.exchange(nullptr, std::memory_order_relaxed);
}

StorageImpl::~StorageImpl() { free_data(); }

void* StorageImpl::operator new(size_t bytes) { return small_blocks::allocate(bytes); }
void StorageImpl::operator delete(void* p, size_t bytes) { small_blocks::deallocate(p, bytes); }

void StorageImpl::release_resources() { free_data(); }

void StorageImpl::free_data() noexcept {
  void* data = data_.exchange(nullptr, std::memory_order_relaxed);
  void* const on_device = std::exchange(device_data_, nullptr);
  if (SharedBlock* const block = shared_.exchange(nullptr, std::memory_order_acq_rel)) {
    leave(block);
  } else if (release_) {
    std::exchange(release_, nullptr)(context_);
  } else if (on_device) {
    private_backend()->deallocate(on_device, nbytes_, device_.index);
  } else if (data) {
    allocator_of(device_.type)->deallocate(data, nbytes_);
  }
  nbytes_ = 0;
}

Storage StorageImpl::lazy_clone() {
  if (!resizable() || !device_.is_cpu()) return Storage();
  auto clone = make_intrusive<StorageImpl>(nullptr, nbytes_, device_, nullptr, nullptr);
  auto fresh = std::make_unique<SharedBlock>(nullptr, nbytes_, device_, 1);
  const std::lock_guard lock(sharing);
  SharedBlock* block = shared_.load(std::memory_order_relaxed);
  if (!block) {
    block = fresh.release();
    block->data = data();
    shared_.store(block, std::memory_order_release);
  }
  block->storages.fetch_add(1, std::memory_order_relaxed);
  clone->data_.store(block->data, std::memory_order_relaxed);
  clone->shared_.store(block, std::memory_order_release);
  return clone;
}

SharedBlock* StorageImpl::hold_or_take_block() {
  const std::lock_guard lock(sharing);
  SharedBlock* const block = shared_.load(std::memory_order_relaxed);
  if (!block) return nullptr;  // another thread was first
  if (block->storages.load(std::memory_order_acquire) > 1) {
    block->storages.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  shared_.store(nullptr, std::memory_order_release);  // the others have left: the memory is ours
  delete block;
  return nullptr;
}

void StorageImpl::copy_memory() {
  const std::unique_ptr<SharedBlock, void (*)(SharedBlock*)> block(hold_or_take_block(), leave);
  if (!block) return;
  Allocator* const allocator = allocator_of(device_.type);
  void* const own = allocator->allocate(block->nbytes);
  if (block->nbytes) std::memcpy(own, block->data, block->nbytes);
  bool first;
  {
    const std::lock_guard lock(sharing);
    first = shared_.load(std::memory_order_relaxed) == block.get();
    if (first) {
      data_.store(own, std::memory_order_relaxed);
      shared_.store(nullptr, std::memory_order_release);
    }
  }
  if (first) {
    leave(block.get());  // for the storage; `block` leaves for this function
  } else {
    allocator->deallocate(own, block->nbytes);
  }
}

void StorageImpl::resize_on_device(size_t nbytes) {
  DeviceBackend& backend = require_private_backend();
  const int device = device_.index;
  void* const grown = nbytes ? backend.allocate(nbytes, device) : nullptr;
  const size_t kept = std::min(nbytes, nbytes_);
  if (kept) backend.copy_bytes(grown, 0, device, device_data_, 0, device, kept);
  void* const old = std::exchange(device_data_, grown);
  if (old) backend.deallocate(old, nbytes_, device);
}

void StorageImpl::resize(size_t nbytes) {
  if (nbytes == nbytes_) return;
  check(resizable(), "expected a resizable storage, got one whose ",
        release_ ? "memory belongs to another library"
                 : "address is held by NumPy, DLPack or a memoryview",
        " (storage that is not resizable)");
  if (device_.type == DeviceType::PrivateUse1) {
    resize_on_device(nbytes);
  } else if (!device_.is_meta()) {
    check(device_.is_cpu(), "expected a storage on the CPU to resize, got device ", device_);
    Allocator* allocator = allocator_of(device_.type);
    void* grown = allocator->allocate(nbytes);
    const size_t kept = std::min(nbytes, nbytes_);
    void* const old = data();
    if (kept) std::memcpy(grown, old, kept);
    if (SharedBlock* const block = shared_.exchange(nullptr, std::memory_order_acq_rel)) {
      leave(block);
    } else {
      allocator->deallocate(old, nbytes_);
    }
    data_.store(grown, std::memory_order_relaxed);
  }
  nbytes_ = nbytes;
}

}  // namespace flambeau::c10
