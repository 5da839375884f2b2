// Other sizes for a tensor over its own memory, which grows if needed.
// Formula: result[i] = the i-th element of the memory from the tensor's offset on.
// Accumulates in: none, values stay where they are.
// NaN, infinity: values are not read.
// Error: none, the result is exact; new memory is filled if deterministic algorithms ask for it.
// Source: by definition.
#include "aten/core/determinism.h"
#include "aten/core/shape.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::ops {
namespace {

// Returns how many bytes the memory had if it grew.
std::optional<size_t> set_sizes(const Tensor& self, IntArrayRef size, bool channels_last) {
  const int64_t numel = numel_of(size);
  const DimVector strides = channels_last ? channels_last_strides(size) : contiguous_strides(size);
  const int64_t extent = numel ? sum_of("resize_", self.storage_offset(), numel) : 0;
  const auto element = static_cast<int64_t>(element_size(self.dtype()));
  const auto bytes = static_cast<size_t>(product_of("resize_", extent, element));
  const size_t had = self.storage()->nbytes();
  if (bytes > had) self.storage()->resize(bytes);
  self.impl()->set_geometry(size, strides, self.storage_offset());
  return bytes > had ? std::optional(had) : std::nullopt;
}

}  // namespace

void set_sizes_cpu(Tensor& self, IntArrayRef size, bool channels_last) {
  if (const auto had = set_sizes(self, size, channels_last)) settle_uninitialized(self, *had);
}

void set_sizes_meta(Tensor& self, IntArrayRef size, bool channels_last) {
  set_sizes(self, size, channels_last);
}

}  // namespace flambeau::ops
