#include "c10/core/device_backend.h"

#include <atomic>

#include "c10/core/check.h"

namespace flambeau::c10 {
namespace {

std::atomic<DeviceBackend*> registered{nullptr};

// The current device's memory, for callers that ask for an allocator by device type.
class PrivateAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    DeviceBackend& backend = require_private_backend();
    return bytes ? backend.allocate(bytes, backend.current_device()) : nullptr;
  }
  void deallocate(void* data, size_t bytes) noexcept override {
    if (data) private_backend()->deallocate(data, bytes, private_backend()->current_device());
  }
  AllocatorStats stats() const override {
    DeviceBackend& backend = require_private_backend();
    return backend.stats(backend.current_device());
  }
  void reset_peak() override {
    DeviceBackend& backend = require_private_backend();
    backend.reset_peak(backend.current_device());
  }
  void empty_cache() override { require_private_backend().empty_cache(); }
};

}  // namespace

bool DeviceBackend::copy_elements(const DeviceElements&, const DeviceElements&) { return false; }
bool DeviceBackend::fill_elements(const DeviceElements&, const void*) { return false; }

void register_private_backend(DeviceBackend* backend) {
  check(backend != nullptr, "register_private_backend: expected a backend, got nullptr");
  DeviceBackend* none = nullptr;
  const bool first = registered.compare_exchange_strong(none, backend, std::memory_order_acq_rel);
  check(first, "register_private_backend: expected the first backend, got another one for ",
        name_of(DeviceType::PrivateUse1));
  static PrivateAllocator allocator;
  set_allocator(DeviceType::PrivateUse1, &allocator);
}

DeviceBackend* private_backend() { return registered.load(std::memory_order_acquire); }

DeviceBackend& require_private_backend() {
  DeviceBackend* const backend = private_backend();
  if (!backend) fail_no_backend(DeviceType::PrivateUse1, ErrorKind::Runtime);
  return *backend;
}

Device with_index(Device device) {
  if (device.type != DeviceType::PrivateUse1) return device;
  const DeviceBackend& backend = require_private_backend();
  if (device.index < 0) device.index = static_cast<int8_t>(backend.current_device());
  const int count = backend.device_count();
  check(device.index < count, "device: expected an index below the number of devices, ", count,
        ", got ", device);
  return device;
}

DeviceGuard::DeviceGuard(Device device) {
  if (device.type != DeviceType::PrivateUse1 || device.index < 0) return;
  DeviceBackend& backend = require_private_backend();
  const int now = backend.current_device();
  if (now == device.index) return;
  backend.set_device(device.index);
  before_ = now;
}

DeviceGuard::~DeviceGuard() {
  if (before_ < 0) return;
  try {
    private_backend()->set_device(before_);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has no one to tell
  }
}

}  // namespace flambeau::c10
