#pragma once
// For packages of out-of-tree devices: the backend that they implement, and queries of tensors for
// its kernels.
#include "api/library.h"
#include "api/tensor.h"
#include "c10/core/device_backend.h"

namespace flambeau::api {

using c10::AllocatorStats;
using c10::DeviceBackend;
using c10::DeviceElements;
using c10::DeviceGuard;
using c10::private_backend;
using c10::register_private_backend;
using c10::with_index;

// What the backend allocated for the tensor's storage. Element 0 is storage_offset() elements from
// there. RuntimeError for tensors on other devices.
void* device_memory(const flambeau::Tensor& t);
// Runs the call on the CPU and copies its results to the device, as operators without a kernel do.
// For kernels that receive dtypes or shapes that they do not support.
void run_on_cpu(const OperatorEntry& op, flambeau::Stack& stack);
namespace native {
// The same as a boxed function, for m.fallback().
void cpu_fallback(const OperatorHandle& op, of_jit::Stack* stack);
}  // namespace native
// The next 64 random bits of `generator`, or of the default generator of its device.
uint64_t draw_device_seed(Device device, c10::GeneratorImpl* generator = nullptr);

}  // namespace flambeau::api
