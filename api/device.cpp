#include "api/device.h"

#include "aten/core/messages.h"
#include "aten/cpu/generator.h"
#include "aten/dispatch/fallbacks.h"

namespace flambeau::api {

void* device_memory(const flambeau::Tensor& t) {
  check(t.device().type == c10::DeviceType::PrivateUse1, "device_memory: expected a tensor on ",
        name_of(c10::DeviceType::PrivateUse1), ", got one on ", t.device());
  return t.storage()->device_data();
}

void run_on_cpu(const OperatorEntry& op, flambeau::Stack& stack) {
  const BoxedKernel fallback = default_fallback(c10::DispatchKey::PrivateUse1);
  check(fallback != nullptr, op.name, ": expected a fallback of ",
        name_of(c10::DeviceType::PrivateUse1), ", got none");
  fallback(op, c10::DispatchKey::PrivateUse1, stack);
}

void native::cpu_fallback(const OperatorHandle& op, of_jit::Stack* stack) {
  flambeau::Stack values = library_stack(std::move(*stack));
  run_on_cpu(op.entry(), values);
  *stack = public_stack(std::move(values));
}

uint64_t draw_device_seed(Device device, c10::GeneratorImpl* generator) {
  const bool fits = !generator || generator->device() == c10::with_index(device);
  check(fits, "expected a generator on device ", device, ", got one on ", generator->device());
  CpuGenerator& source =
      generator ? static_cast<CpuGenerator&>(*generator) : default_device_generator(device);
  const std::lock_guard lock(source.mutex());
  return source.random64();
}

}  // namespace flambeau::api
