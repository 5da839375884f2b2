#include "aten/autograd/saved_tensor.h"

#include "aten/autograd/engine.h"
#include "aten/autograd/variable.h"

namespace flambeau::autograd {

thread_local constinit SavedTensorHookFactory saved_tensor_hook_factory = nullptr;

namespace {

// `alias` of `t` with the tangent of `t`, which forward-over-reverse differentiates through.
Tensor with_tangent_of(const Tensor& t, Tensor alias) {
  if (const Tensor tangent = forward_grad(t); tangent.defined()) set_forward_grad(alias, tangent);
  return alias;
}

}  // namespace

void SavedTensor::save(const Tensor& tensor, bool is_output, bool inplace_on_view) {
  if (!tensor.defined()) return;
  check(!tensor.impl()->is_inference(),
        "Inference tensors cannot be saved to compute gradients: use a clone() made outside of "
        "inference mode, or compute under torch.no_grad() instead");
  version_ = tensor.impl()->version();
  requires_grad_ = requires_grad(tensor);
  is_leaf_ = requires_grad_ && is_leaf(tensor);
  is_output_ = is_output && !is_leaf_;
  if (is_output_ && requires_grad_) {
    output_nr_ = meta_of(tensor)->output_nr;
    if (inplace_on_view) {
      view_grad_fn_ = weak_intrusive_ptr<Node>(grad_fn(tensor));
      is_rebased_view_ = true;
    }
  }
  data_ = is_output_ ? with_tangent_of(tensor, shallow_alias(tensor)) : tensor;
  if (saved_tensor_hook_factory) [[unlikely]]
    set_hook(saved_tensor_hook_factory());
}

void SavedTensor::set_hook(intrusive_ptr<SavedTensorHook> hook) {
  check(!hook_,
        "Calling register_hooks on a saved tensor whose hooks have already been set: there is one "
        "pair at a time");
  if (!hook || !data_.defined()) return;
  {
    const GradModeGuard no_grad(false);
    const UserCodeScope scope;
    const uint32_t version = data_.impl()->version();
    hook->pack(is_leaf_ ? data_ : shallow_alias(data_));
    check(data_.impl()->version() == version,
          "A saved tensor pack hook is modifying its input in place, which the graph still reads; "
          "pack a copy");
  }
  hook_ = std::move(hook);
  if (is_leaf_) return;  // the leaf itself stays: its accumulator must be found again
  if (!is_output_ && requires_grad_) {
    Edge edge = gradient_edge(data_);
    grad_fn_ = std::move(edge.function);
    output_nr_ = edge.input_nr;
  }
  data_.reset();
}

void SavedTensor::reset() {
  data_.reset();
  hook_.reset();
  grad_fn_.reset();
  view_grad_fn_ = {};
  released_ = true;
}

namespace {

// "MulBackward0" -> "Mul".
std::string forward_name(const Node& node) {
  const std::string name = node.name();
  const size_t end = name.rfind("Backward");
  return end == std::string::npos ? name : name.substr(0, end);
}

}  // namespace

void SavedTensor::check_version(const Node& owner) const {
  const uint32_t version = data_.impl()->version();
  if (version == version_) [[likely]]
    return;
  std::string origin;
  const AutogradMeta* meta = meta_of(data_);
  if (is_output_) {
    origin = text_of(", which is output ", output_nr_, " of ", forward_name(owner), ",");
  } else if (meta && meta->grad_fn) {
    origin =
        text_of(", which is output ", meta->output_nr, " of ", forward_name(*meta->grad_fn), ",");
  }
  fail(ErrorKind::Runtime, "a tensor that backward needs was modified by an inplace operation: [",
       name_of(data_.dtype()), " tensor of shape ", data_.sizes(), "]", origin, " is at version ",
       version, ", but was saved at version ", version_,
       ". torch.autograd.set_detect_anomaly(True) shows the call that saved it.");
}

Tensor SavedTensor::unpack(Node& owner, bool shown) const {
  if (released_) [[unlikely]] {
    fail(ErrorKind::Runtime, "Trying to backward through the graph a second time: ", owner.name(),
         " has freed its saved tensors; pass retain_graph=True to the first pass");
  }
  if (hook_) [[unlikely]] {
    Tensor data;
    {
      const UserCodeScope scope;  // it may compute the tensor again, and record that
      data = hook_->unpack();
    }
    if (is_leaf_) {
      const Tensor alias = shallow_alias(data);
      AutogradMeta& meta = make_meta(alias);
      meta.grad_fn = grad_accumulator(data_);
      alias.impl()->add_keys(DispatchKey::Autograd);
      return alias;
    }
    return requires_grad_ ? with_history(std::move(data), owner) : data;
  }
  if (!data_.defined()) return {};
  check_version(owner);
  if (!is_output_ || !requires_grad_ || !(shown || thread_state.grad_enabled)) return data_;
  return with_history(data_, owner);
}

Tensor SavedTensor::with_history(Tensor data, Node& owner) const {
  Tensor alias = with_tangent_of(data, shallow_alias(data));
  AutogradMeta& meta = make_meta(alias);
  if (is_rebased_view_) meta.grad_fn = view_grad_fn_.lock();
  // Of a view that has died since, `owner` computed the value as well.
  if (!meta.grad_fn) meta.grad_fn = is_output_ ? intrusive_ptr<Node>::share(&owner) : grad_fn_;
  meta.output_nr = output_nr_;
  alias.impl()->add_keys(DispatchKey::Autograd);
  return alias;
}

}  // namespace flambeau::autograd
