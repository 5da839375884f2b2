#include "call.h"

#include <torchgen_out/aten/view_ops.h>

#include <cstring>
#include <iterator>
#include <sstream>

namespace flambeau_opencl {
namespace {

size_t position(const OperatorEntry& op, const std::string& name) {
  const auto arguments = op.traits->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (name == arguments[i].name) return i;
  }
  TORCH_CHECK(false, op.name, ": expected an argument ", name);
}

Tensor on_meta(const Tensor& t) {
  const flambeau::c10::Device meta(DeviceType::Meta);
  auto storage = c10::make_intrusive<flambeau::c10::StorageImpl>(t.storage()->nbytes(), meta);
  Tensor made(c10::make_intrusive<flambeau::c10::TensorImpl>(std::move(storage), t.dtype(), meta));
  made.impl()->set_geometry(t.sizes(), t.strides(), t.storage_offset());
  return made;
}

unsigned category_of(ScalarType dtype) {
  return dtype == ScalarType::Bool ? 1
         : is_complex_type(dtype)  ? 8
         : is_floating_type(dtype) ? 4
                                   : 2;
}

}  // namespace

const IValue& Call::at(const std::string& name) const { return stack[position(op, name)]; }

std::optional<Tensor> Call::target() const {
  const auto arguments = op.traits->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_mutable) return stack[i].tensor();
  }
  return std::nullopt;
}

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

bool is_here(const IValue& v) {
  return v.is_tensor() && v.tensor().device().type == DeviceType::PrivateUse1;
}

Stack results_on_meta(const Call& call) {
  Stack stack = call.stack;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (is_here(stack[i])) stack[i] = IValue(on_meta(stack[i].tensor()));
    if (auto* list = std::get_if<std::vector<Tensor>>(&stack[i].payload())) {
      std::vector<Tensor> moved = *list;
      for (Tensor& t : moved) {
        if (t.defined() && t.device().type == DeviceType::PrivateUse1) t = on_meta(t);
      }
      stack[i] = IValue(std::move(moved));
    }
  }
  redispatch_boxed(call.op, flambeau::c10::DispatchKey::Meta, stack);
  return stack;
}

Tensor result_spec(const Call& call) { return results_on_meta(call)[0].tensor(); }

bool is_for(unsigned categories, ScalarType dtype) {
  return (categories & category_of(dtype)) != 0;
}

bool computes(unsigned categories, ScalarType dtype, const Device& device) {
  return is_for(categories, dtype) && !type_name(dtype, device).empty();
}

bool is_condition(const char* rule) {
  return std::strcmp(rule, "compare") == 0 || std::strcmp(rule, "logical") == 0;
}

Tensor in_dtype(const Tensor& t, ScalarType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor cast = flambeau::empty_tensor(t.sizes(), dtype, t.device());
  flambeau::copy_into(cast, t);
  return cast;
}

Tensor from_start(const Tensor& t) {
  const Tensor dense = flambeau::contiguous_tensor(t);
  if (dense.storage_offset() == 0) return dense;
  Tensor copy = flambeau::empty_tensor(t.sizes(), t.dtype(), t.device());
  flambeau::copy_into(copy, dense);
  return copy;
}

Tensor laid_out(const Tensor& t, const Tensor& spec) {
  if (t.strides() == spec.strides()) return t;
  Tensor made = flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), t.dtype(), t.device());
  flambeau::copy_into(made, t);
  return made;
}

Constant::Constant(const Scalar& value, ScalarType compute) {
  const ScalarType held = is_reduced_floating_type(compute) ? ScalarType::Float32 : compute;
  size = element_size(held);
  value.store(held, bytes);
}

Output::Output(const Call& call, const Tensor& spec, ScalarType dtype, flambeau::c10::Device device)
    : target(call.target()) {
  if (!target) {
    written = flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), dtype, device);
    return;
  }
  if (target->sizes() != spec.sizes())
    flambeau::ops::_set_sizes_::call(*target, spec.sizes(), false);
  const bool is_direct = target->dtype() == dtype && is_alone(call);
  written = is_direct ? *target : flambeau::empty_tensor(spec.sizes(), dtype, device);
}

void Output::finish(Call& call) {
  if (target) {
    if (!written.is_same(*target)) flambeau::copy_into(*target, written);
    target->impl()->bump_version();
  }
  const Tensor result = target ? *target : written;
  call.stack.clear();
  call.stack.push(IValue(result));
}

bool Output::is_alone(const Call& call) const {
  for (size_t i = 0; i < call.stack.size(); ++i) {
    if (!is_here(call.stack[i])) continue;
    const Tensor& t = call.stack[i].tensor();
    const bool same_place = t.storage_offset() == target->storage_offset() &&
                            t.sizes() == target->sizes() && t.strides() == target->strides() &&
                            t.dtype() == target->dtype();
    if (t.storage() == target->storage() && !same_place) return false;
  }
  return true;
}

}  // namespace flambeau_opencl
