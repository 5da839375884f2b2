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

// The wrapper of a batched value, or a tensor whose class in Python answers for its elements.
bool has_no_memory(const Tensor& t) {
  return t.impl()->wrapper() || (t.keys().has(DispatchKey::BackendMode) && !t.storage()->data());
}

bool overlaps_any(const Tensor& out, ArrayRef<const Tensor*> inputs) {
  for (const Tensor* input : inputs) {
    if (input && input->defined() && overlap_of(out, *input) != Overlap::No) return true;
  }
  return false;
}

void check_sharing(const char* op, const Tensor& written, const Tensor& input, Sharing allowed) {
  if (!input.defined() || has_no_memory(written) || has_no_memory(input)) return;
  const Overlap overlap = overlap_of(written, input);
  const bool refused =
      overlap == Overlap::Partial || (overlap == Overlap::Full && allowed == Sharing::None);
  check(!refused, op, ": ", kReadAndWritten);
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

void check_sharing(const char* op, const Tensor& written, ArrayRef<const Tensor*> inputs,
                   Sharing allowed) {
  for (const Tensor* input : inputs) {
    if (input) check_sharing(op, written, *input, allowed);
  }
}

void check_written_once(const char* op, const Tensor& written) {
  check(has_no_memory(written) || !has_internal_overlap(written), op, ": ", kWrittenTwice);
}

void check_apart(const char* op, ArrayRef<const Tensor*> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const Tensor &a = *results[i], &b = *results[k];
      if (!a.defined() || !b.defined() || has_no_memory(a) || has_no_memory(b)) continue;
      check(!a.is_same(b) && overlap_of(a, b) == Overlap::No, op, ": ", kWrittenByTwo);
    }
  }
}

std::vector<const Tensor*> tensors_of(ArrayRef<const Tensor*> single, ArrayRef<TensorList> lists) {
  std::vector<const Tensor*> all = single.vec();
  for (const TensorList& list : lists) {
    for (const Tensor& t : list) all.push_back(&t);
  }
  return all;
}

bool grows_under(const Tensor& out, const OutSpec& spec, ArrayRef<const Tensor*> inputs) {
  if (out.sizes() == spec.sizes.ref()) return false;
  for (const Tensor* input : inputs) {
    if (input && input->defined() && input->storage() == out.storage()) return true;
  }
  return false;
}

void prepare_out(const char* op, Tensor& out, const OutSpec& spec) {
  check_castable(spec.dtype, out.dtype());
  check(out.device() == spec.device, op, ": expected out on device ", spec.device, ", got ",
        out.device());
  if (!(out.sizes() == spec.sizes.ref())) {
    resize_output(out, spec);
    return;
  }
  check_written_once(op, out);
}

OutTarget::OutTarget(const char* op, Tensor& out, const OutSpec& spec,
                     ArrayRef<const Tensor*> inputs)
    : op_(op), out_(out), spec_(spec) {
  if (grows_under(out, spec, inputs)) {
    target_ = allocate(spec);
    return;
  }
  prepare_out(op, out, spec);
  const bool fits =
      out.dtype() == spec.dtype && has_strides_of(out, spec) && !overlaps_any(out, inputs);
  target_ = fits ? out : allocate(spec);
}

void OutTarget::commit() {
  if (target_.is_same(out_)) return;
  prepare_out(op_, out_, spec_);
  copy_into(out_, target_);
}

void check_inplace(const char* op, const Tensor& self, const OutSpec& spec) {
  check(self.sizes() == spec.sizes.ref(), op, ": ", WrongOutputShape{self.sizes(), spec.sizes});
  check_castable(spec.dtype, self.dtype());
  check_written_once(op, self);
}

}  // namespace flambeau
