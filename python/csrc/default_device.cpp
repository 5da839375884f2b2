// The default device: where a function makes its result if the call names no device.
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"

namespace flambeau::python {
namespace {

thread_local std::optional<Device> device_of_thread;

}  // namespace

std::optional<Device> default_device() { return device_of_thread; }
void set_default_device(std::optional<Device> device) { device_of_thread = device; }

// A result that is made of tensors goes where they are; only one that is made of nothing goes to
// the default device.
std::optional<Device> ParsedArgs::optional_device(int i) const {
  if (has(i)) return device(i);
  for (int k = 0; k < signature_->count; ++k) {
    const ParamKind kind = signature_->params[k].kind;
    const bool tensors = kind == ParamKind::Tensor || kind == ParamKind::TensorList;
    if (tensors && has(k)) return std::nullopt;
  }
  return default_device();
}

}  // namespace flambeau::python
