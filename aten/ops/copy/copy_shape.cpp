// Shape rules of copies.
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/copy_kernels.h"

namespace flambeau::shape {

void clone(const Tensor& self, std::optional<MemoryFormat> memory_format, OutSpec* out) {
  like_with(self, std::nullopt, std::nullopt, memory_format, out);
}

void copied_to(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> memory_format, OutSpec* out) {
  like_with(self, dtype, device, memory_format, out);
  if (self.is_meta() && !out->device.is_meta())
    fail(ErrorKind::NotImplemented, "Cannot copy out of meta tensor: ", self, " has no data");
}

}  // namespace flambeau::shape
