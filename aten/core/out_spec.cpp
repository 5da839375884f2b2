#include "aten/core/out_spec.h"

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"

namespace flambeau {
namespace {

void check_castable(ScalarType from, ScalarType to) {
  check(can_cast(from, to), "a result of type ", pytorch_name_of(from),
        " can't be cast to out's type ", pytorch_name_of(to));
}

void resize_output(Tensor& out, const OutSpec& spec) {
  const DimVector strides = spec.strides.empty() ? contiguous_strides(spec.sizes) : spec.strides;
  const int64_t elements = sum_of("resize", out.storage_offset(), extent_of(spec.sizes, strides));
  const auto item = static_cast<int64_t>(element_size(out.dtype()));
  const auto bytes = static_cast<size_t>(product_of("resize", elements, item));
  if (bytes > out.storage()->nbytes()) out.storage()->resize(bytes);
  out.impl()->set_geometry(spec.sizes, strides, out.storage_offset());
}

bool overlaps_any(const Tensor& out, ArrayRef<const Tensor*> inputs) {
  for (const Tensor* input : inputs) {
    if (input && input->defined() && overlap_of(out, *input) != Overlap::No) return true;
  }
  return false;
}

bool has_strides_of(const Tensor& out, const OutSpec& spec) {
  return spec.strides.empty() ? out.is_contiguous() : out.strides() == spec.strides.ref();
}

}  // namespace

Tensor allocate(const OutSpec& spec) {
  if (!spec.defined) return Tensor();
  if (spec.strides.empty()) return empty_tensor(spec.sizes, spec.dtype, spec.device);
  return empty_strided_tensor(spec.sizes, spec.strides, spec.dtype, spec.device);
}

void prepare_out(const char* op, Tensor& out, const OutSpec& spec) {
  check_castable(spec.dtype, out.dtype());
  check(out.device() == spec.device, op, ": expected out on device ", spec.device, ", got ",
        out.device());
  if (!(out.sizes() == spec.sizes.ref())) {
    resize_output(out, spec);
    return;
  }
  check(!has_internal_overlap(out), op, ": ", kWrittenTwice);
}

OutTarget::OutTarget(const char* op, Tensor& out, const OutSpec& spec,
                     ArrayRef<const Tensor*> inputs)
    : out_(out) {
  prepare_out(op, out, spec);
  const bool fits =
      out.dtype() == spec.dtype && has_strides_of(out, spec) && !overlaps_any(out, inputs);
  target_ = fits ? out : allocate(spec);
}

void OutTarget::commit() {
  if (!target_.is_same(out_)) copy_into(out_, target_);
}

void check_inplace(const char* op, const Tensor& self, const OutSpec& spec) {
  check(self.sizes() == spec.sizes.ref(), op, ": ", WrongOutputShape{self.sizes(), spec.sizes});
  check_castable(spec.dtype, self.dtype());
  check(!has_internal_overlap(self), op, ": ", kWrittenTwice);
}

}  // namespace flambeau
