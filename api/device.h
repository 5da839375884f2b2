#pragma once
// What packages of out-of-tree devices use: the backend that they implement, and what its kernels
// ask of tensors.
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
// What operators without a kernel do: the call on the CPU, its results on the device. For kernels
// that meet dtypes or shapes which they do not compute.
void run_on_cpu(const OperatorEntry& op, Stack& stack);
// The next 64 random bits of `generator`, or of the default generator of its device.
uint64_t draw_device_seed(Device device, c10::GeneratorImpl* generator = nullptr);

}  // namespace flambeau::api
