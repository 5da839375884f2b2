#pragma once
// Memory for tensors. Allocators are process-wide and never destroyed.
#include <cstddef>
#include <cstdint>

#include "c10/core/device.h"

namespace flambeau::c10 {

struct AllocatorStats {
  int64_t allocated_bytes = 0;       // handed out now
  int64_t peak_allocated_bytes = 0;  // the most since reset_peak
  int64_t cached_bytes = 0;          // held for reuse
  int64_t allocations = 0;           // calls of allocate
  int64_t cache_hits = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least 64-byte aligned; nullptr only for 0 bytes; Error(OutOfMemory) when memory is short.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* data, size_t bytes) noexcept = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak() = 0;
  // Returns cached blocks to the system.
  virtual void empty_cache() = 0;
};

// The caching CPU allocator (size classes for small blocks, huge pages for blocks >= 2 MB).
Allocator* cpu_allocator();
// The allocator of a device type; Error(Runtime) naming the device if none is registered.
Allocator* allocator_of(DeviceType t);
bool has_allocator(DeviceType t);
void set_allocator(DeviceType t, Allocator* allocator);

}  // namespace flambeau::c10
