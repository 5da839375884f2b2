#include "c10/core/storage.h"

#include <algorithm>
#include <cstring>

#include "c10/core/small_blocks.h"

namespace flambeau::c10 {

StorageImpl::StorageImpl(size_t nbytes, Device device) : nbytes_(nbytes), device_(device) {
  if (!device.is_meta()) data_ = allocator_of(device.type)->allocate(nbytes);
}

StorageImpl::StorageImpl(void* data, size_t nbytes, Device device, void (*release)(void*),
                         void* context)
    : data_(data), nbytes_(nbytes), release_(release), context_(context), device_(device) {}

StorageImpl::~StorageImpl() { free_data(); }

void* StorageImpl::operator new(size_t bytes) { return small_blocks::allocate(bytes); }
void StorageImpl::operator delete(void* p, size_t bytes) { small_blocks::deallocate(p, bytes); }

void StorageImpl::release_resources() { free_data(); }

void StorageImpl::free_data() noexcept {
  void* data = std::exchange(data_, nullptr);
  if (release_) {
    std::exchange(release_, nullptr)(context_);
  } else if (data) {
    allocator_of(device_.type)->deallocate(data, nbytes_);
  }
  nbytes_ = 0;
}

void StorageImpl::resize(size_t nbytes) {
  if (nbytes == nbytes_) return;
  check(resizable(), "the storage is not resizable: ",
        release_ ? "its memory is another library's"
                 : "NumPy, DLPack or a memoryview holds its address");
  if (!device_.is_meta()) {
    check(device_.is_cpu(), "resizing a storage is only possible on the CPU, got device ", device_);
    Allocator* allocator = allocator_of(device_.type);
    void* grown = allocator->allocate(nbytes);
    const size_t kept = std::min(nbytes, nbytes_);
    if (kept) std::memcpy(grown, data_, kept);
    allocator->deallocate(data_, nbytes_);
    data_ = grown;
  }
  nbytes_ = nbytes;
}

}  // namespace flambeau::c10
