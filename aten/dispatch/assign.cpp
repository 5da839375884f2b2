#include "aten/dispatch/assign.h"

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

void assign_inplace(Tensor& self, const Tensor& result) {
  using Copy = Tensor& (*)(DispatchKeySet, Tensor&, const Tensor&, bool);
  static const OperatorEntry* const copy = find_operator("copy_");
  check(copy != nullptr, "assign_inplace: the operator copy_ is not registered");
  check(self.sizes() == result.sizes(), WrongOutputShape{self.sizes(), result.sizes()});
  check(can_cast(result.dtype(), self.dtype()), "a result of type ",
        pytorch_name_of(result.dtype()), " can't be cast to that of self, ",
        pytorch_name_of(self.dtype()));
  // Under a transform the geometry is not that of memory.
  check(self.impl()->wrapper() || !has_internal_overlap(self), kWrittenTwice);
  const DispatchKeySet keys = effective_keys(keys_of(self) | keys_of(result));
  reinterpret_cast<Copy>(copy->lookup(keys))(keys, self, result, false);
}

Tensor unwritten(const Tensor& self, DispatchKeySet keys) {
  if (!thread_state.grad_enabled || !keys.has(DispatchKey::Autograd)) return self;
  using Clone = Tensor (*)(DispatchKeySet, const Tensor&, std::optional<MemoryFormat>);
  static const OperatorEntry* const clone = find_operator("clone");
  check(clone != nullptr, "unwritten: the operator clone is not registered");
  const DispatchKeySet own = effective_keys(keys_of(self));
  return reinterpret_cast<Clone>(clone->lookup(own))(own, self, std::nullopt);
}

void assign_out(const char* op, Tensor& out, const Tensor& result) {
  check(result.layout() == out.layout(), op, ": expected out= of the result's layout ",
        result.layout() == Layout::Strided ? "strided, got sparse_coo" : "sparse_coo, got strided");
  OutSpec spec{DimVector(result.sizes()), {}, result.dtype(), result.device()};
  OutTarget target(op, out, spec, {&result});
  if (!result.is_meta()) copy_into(target.target(), result);
  target.commit();
}

void keep_results(ArrayRef<const Tensor*> outs, ArrayRef<Tensor*> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& result = *results[i];
    for (size_t k = 0; k < outs.size(); ++k) {
      if (k == i || !result.defined() || overlap_of(*outs[k], result) == Overlap::No) continue;
      const Tensor copy = empty_tensor(result.sizes(), result.dtype());
      copy_into(copy, result);
      result = copy;
    }
  }
}

void require_dtype(const char* op, const Tensor& out, ScalarType dtype) {
  check(out.dtype() == dtype, op, ": expected an out tensor of dtype ", dtype, ", got ", out);
}

void require_dtype(const char* op, TensorList outs, TensorList results) {
  for (size_t i = 0; i < std::min(outs.size(), results.size()); ++i) {
    if (outs[i].defined()) require_dtype(op, outs[i], results[i].dtype());
  }
}

void require_castable(const char* op, const Tensor& out, ScalarType dtype) {
  if (can_cast(dtype, out.dtype())) return;
  fail(ErrorKind::Type, op, ": a result of type ", pytorch_name_of(dtype),
       " can't be cast to the desired output type ", pytorch_name_of(out.dtype()));
}

namespace {

void require_meta(const char* op, Device device) {
  check(device.is_meta(), OtherDevice{op, Device{DeviceType::Meta}, device});
}

}  // namespace

void require_meta(const char* op, const Tensor& written) { require_meta(op, written.device()); }

void require_meta(const char* op, TensorList written) {
  for (const Tensor& t : written) require_meta(op, t.device());
}

void require_meta(const char* op, ArrayRef<OutSpec> results) {
  for (const OutSpec& result : results) {
    if (result.defined) require_meta(op, result.device);
  }
}

void require_meta(const char* op, ArrayRef<const Tensor*> inputs) {
  for (const Tensor* input : inputs) {
    if (input->defined() && input->dim() > 0) require_meta(op, input->device());
  }
}

void assign_outs(const char* op, TensorList outs, TensorList results) {
  check(outs.size() == results.size(), op, ": expected out= to be ", results.size(),
        " tensors, got ", outs.size());
  for (const Tensor& out : outs)
    check(out.defined(), op, ": expected tensors as elements of out=, got None");
  check_apart(op, tensors_of({}, {outs}));
  for (size_t i = 0; i < outs.size(); ++i) {
    Tensor out = outs[i];
    assign_out(op, out, results[i]);
    out.impl()->bump_version();
  }
}

}  // namespace flambeau
