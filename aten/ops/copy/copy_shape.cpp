// Shape rules of copies.
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/copy_kernels.h"

namespace flambeau::shape {

void clone(const Tensor& self, std::optional<MemoryFormat> memory_format, OutSpec* out) {
  like_with(self, std::nullopt, std::nullopt, memory_format, out);
}

}  // namespace flambeau::shape
