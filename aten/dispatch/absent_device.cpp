// Calls that request a tensor on a device without a backend are refused.
#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/stack.h"

namespace flambeau {
namespace {

void refuse(const OperatorEntry& op, DispatchKeySet, Stack& stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    const auto* device = std::get_if<Device>(&stack[i].payload());
    if (device && backend_key(device->type) == kAbsentKey)
      fail_no_backend(device->type, ErrorKind::NotImplemented);
  }
  fail(ErrorKind::NotImplemented, op.name, ": this build has no backend for the device");
}

[[maybe_unused]] const bool installed = [] {
  set_boxed_fallback(kAbsentKey, refuse);
  return true;
}();

}  // namespace
}  // namespace flambeau
