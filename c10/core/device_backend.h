#pragma once
// The interface that a package implements for a device of its own: memory, copies, the current
// device and random numbers of DeviceType::PrivateUse1. Kernels are registered for the dispatch key
// PrivateUse1; operators without one run on the CPU (aten/ops/device).
#include <cstddef>
#include <cstdint>

#include "c10/core/allocator.h"
#include "c10/core/array_ref.h"
#include "c10/core/device.h"
#include "c10/core/generator.h"
#include "c10/core/scalar_type.h"

namespace flambeau::c10 {

// Elements in the memory of a device. Strides and offset count elements.
struct DeviceElements {
  void* memory;  // what `allocate` returned
  int64_t offset;
  ScalarType dtype;
  IntArrayRef sizes;
  IntArrayRef strides;
  int device;
};

// All functions but `deallocate` may throw. They are called from any thread, and finish their work
// before they return unless they say otherwise. The host never reads what `allocate` returns: it is
// an address on the device or a handle.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual int device_count() const = 0;
  // Of the calling thread.
  virtual int current_device() const = 0;
  virtual void set_device(int device) = 0;
  // Waits until the work submitted to the device is done.
  virtual void synchronize(int device) = 0;

  // Never nullptr; `bytes` is at least 1. Error(OutOfMemory) when memory is short.
  virtual void* allocate(size_t bytes, int device) = 0;
  virtual void deallocate(void* memory, size_t bytes, int device) noexcept = 0;
  virtual AllocatorStats stats(int device) const = 0;
  virtual void reset_peak(int device) = 0;
  virtual void empty_cache() = 0;

  // `offset` counts bytes. The host's memory may be used again when the call returns.
  virtual void copy_from_host(void* memory, size_t offset, int device, const void* host,
                              size_t bytes) = 0;
  virtual void copy_to_host(const void* memory, size_t offset, int device, void* host,
                            size_t bytes) = 0;
  // Between blocks of equal or different devices, without overlap. The work may be queued.
  virtual void copy_bytes(void* to, size_t to_offset, int to_device, const void* from,
                          size_t from_offset, int from_device, size_t bytes) = 0;
  // The rest is optional: false leaves the work to copies through the host.
  // to <- from, element by element and cast to the dtype of `to`; sizes are equal, strides of
  // `from` may be 0. No element of one is an element of the other.
  virtual bool copy_elements(const DeviceElements& to, const DeviceElements& from);
  // Writes `item` (one element of the dtype of `to`) into all elements.
  virtual bool fill_elements(const DeviceElements& to, const void* item);
};

// Once for the process; the backend is never destroyed. Error(Runtime) for a second one.
void register_private_backend(DeviceBackend* backend);
// nullptr: no package has registered one.
DeviceBackend* private_backend();
// The same; otherwise raises what a missing backend raises.
DeviceBackend& require_private_backend();

// The device with its index: -1 is the current device of the thread. Error(Runtime) for indices
// that the backend does not have. Other device types are left as they are.
Device with_index(Device device);

// Makes a device the current one of the thread for the length of a block.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;
};

}  // namespace flambeau::c10
