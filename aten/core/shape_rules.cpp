#include "aten/core/shape_rules.h"

#include "aten/core/memory_format.h"
#include "aten/core/memory_order.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"

namespace flambeau::shape {

void like(const Tensor& self, OutSpec* out) { like(self, self.dtype(), out); }

void like(const Tensor& self, ScalarType dtype, OutSpec* out) {
  sized(self, self.sizes(), dtype, out);
}

void like_preserving(const Tensor& self, OutSpec* out) {
  like(self, out);
  out->strides = preserved_strides(self);
}

void like_with(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> memory_format, OutSpec* out) {
  like(self, dtype.value_or(self.dtype()), out);
  out->device = device.value_or(self.device());
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Preserve);
  out->strides = format == MemoryFormat::Preserve ? preserved_strides(self)
                                                  : strides_of_format(self.sizes(), format);
}

void sized(const Tensor& self, IntArrayRef size, OutSpec* out) {
  sized(self, size, self.dtype(), out);
}

void sized(const Tensor& self, IntArrayRef size, ScalarType dtype, OutSpec* out) {
  out->sizes = size;
  out->dtype = dtype;
  out->device = self.device();
}

void check_grad_output(const char* op, const Tensor& grad_output, IntArrayRef sizes) {
  check(grad_output.sizes() == sizes, op, ": Expected grad_output to have shape ", sizes,
        ", but got ", grad_output);
}

void factory(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Device> device,
             OutSpec* out) {
  out->sizes = size;
  out->dtype = dtype.value_or(default_dtype());
  out->device = device.value_or(Device());
}

void reduced(const Tensor& self, const std::optional<IntArrayRef>& dim, bool keepdim,
             OutSpec* out) {
  const bool all = !dim || dim->empty();
  const uint64_t mask = all ? ~uint64_t{0} : dim_mask(*dim, self.dim());
  sized(self, reduced_sizes(self.sizes(), mask, keepdim), out);
}

void reduced(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  reduced(self, std::optional<IntArrayRef>(IntArrayRef(dim)), keepdim, out);
}

void broadcast(const Tensor& self, const Tensor& other, OutSpec* out) {
  sized(self, broadcast_sizes(self.sizes(), other.sizes()), result_type(self, other), out);
}

}  // namespace flambeau::shape
