#include "aten/autograd/variable.h"

#include "aten/autograd/accumulate_grad.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/stand_in.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "c10/core/small_blocks.h"

namespace flambeau::autograd {

void* AutogradMeta::operator new(size_t bytes) { return small_blocks::allocate(bytes); }
void AutogradMeta::operator delete(void* p, size_t bytes) { small_blocks::deallocate(p, bytes); }
AutogradMeta::~AutogradMeta() = default;

AutogradMeta& make_meta(const Tensor& t) {
  if (AutogradMeta* meta = meta_of(t)) return *meta;
  return static_cast<AutogradMeta&>(
      *t.impl()->offer_autograd_meta(std::make_unique<AutogradMeta>()));
}

// --- asking -------------------------------------------------------------------------------------

bool requires_grad_slow(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (!meta) return false;
  if (meta->requires_grad || meta->grad_fn) return true;
  return meta->is_view && requires_grad(static_cast<const ViewMeta*>(meta)->base);
}

bool is_leaf(const Tensor& t) { return !requires_grad(t) || !grad_fn(t); }

intrusive_ptr<Node> grad_accumulator(const Tensor& leaf) {
  AutogradMeta& meta = make_meta(leaf);
  const MetaLock lock(meta);
  if (intrusive_ptr<Node> node = meta.accumulator.lock()) return node;
  intrusive_ptr<Node> node = make_intrusive<AccumulateGrad>(leaf);
  meta.accumulator = weak_intrusive_ptr<Node>(node);
  return node;
}

Edge gradient_edge(const Tensor& t) {
  if (!requires_grad(t)) return {};
  if (intrusive_ptr<Node> node = grad_fn(t)) return {std::move(node), meta_of(t)->output_nr};
  return {grad_accumulator(t), 0};
}

// --- recording ----------------------------------------------------------------------------------

void set_history(const Tensor& t, Node& node) {
  // An operator that is recorded as a whole may end in a view of a tensor of its own, whose history
  // nobody knows. An in-place operation on `t` must not take its history from there.
  if (const AutogradMeta* meta = t.defined() ? meta_of(t) : nullptr;
      meta && meta->is_view && !static_cast<const ViewMeta*>(meta)->of_recorded) {
    t.impl()->set_autograd_meta(nullptr);
  }
  set_history(t, node, static_cast<uint32_t>(node.num_outputs()));
}

void set_history(const Tensor& t, Node& node, uint32_t output_nr) {
  while (node.num_outputs() <= output_nr) node.add_undefined_output();
  if (!t.defined() || !is_differentiable_type(t.dtype())) return;
  node.set_output(output_nr, t);
  AutogradMeta& meta = make_meta(t);
  meta.grad_fn = intrusive_ptr<Node>::share(&node);
  meta.output_nr = output_nr;
  if (meta.is_view) static_cast<ViewMeta&>(meta).grad_version = t.impl()->version();
  t.impl()->add_keys(DispatchKey::Autograd);
}

// --- changing -----------------------------------------------------------------------------------

void set_requires_grad(const Tensor& t, bool value) {
  check(!value || is_differentiable_type(t.dtype()),
        "only Tensors of floating point dtypes, or complex ones, require gradients, got ",
        t.dtype());
  check(!value || !t.impl()->is_inference() || thread_state.inference_mode,
        "requires_grad=True on an inference tensor: set it on a clone() made outside of inference "
        "mode");
  if (!is_leaf(t)) {
    check(value,
          "requires_grad flags change on leaves only; detach() gives a leaf of a computed tensor");
    return;
  }
  if (!value && !meta_of(t)) return;
  make_meta(t).requires_grad = value;
  if (value) {
    mark_requires_grad(t);
  } else if (!forward_grad_slow(t).defined()) {
    t.impl()->remove_keys(DispatchKey::Autograd);
  }
}

Tensor grad_of(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta ? meta->grad : Tensor();
}

ScalarType grad_dtype(const Tensor& leaf) {
  const AutogradMeta* meta = meta_of(leaf);
  return meta && meta->extras ? meta->extras->grad_dtype.value_or(leaf.dtype()) : leaf.dtype();
}

void set_grad_dtype(const Tensor& leaf, ScalarType dtype) {
  AutogradMeta& meta = make_meta(leaf);
  const ScalarType present = meta.grad.defined() ? meta.grad.dtype() : dtype;
  check(dtype == ScalarType::Undefined || present == dtype, "Cannot set grad_dtype to ", dtype,
        " because there is already a gradient with dtype ", present,
        "; clear it before (.grad = None)");
  const MetaLock lock(meta);
  meta.make_extras().grad_dtype = dtype;
  if (const intrusive_ptr<Node> sink = meta.accumulator.lock()) sink->set_gradient_dtype(dtype);
}

void set_grad(const Tensor& t, const Tensor& grad) {
  if (!grad.defined()) {
    if (AutogradMeta* meta = meta_of(t)) meta->grad.reset();
    return;
  }
  check(!grad.is_same(t), "can't take a tensor as its own grad");
  check(grad.sizes() == t.sizes(), "expected a gradient of size ", t.sizes(), ", got ",
        grad.sizes());
  const ScalarType dtype = grad_dtype(t);
  check(dtype == ScalarType::Undefined || grad.dtype() == dtype,
        "attempting to assign a gradient with dtype ", grad.dtype(),
        " to a tensor that takes a gradient of dtype ", dtype);
  check(grad.device() == t.device(), "expected a gradient on device ", t.device(), ", got ",
        grad.device());
  make_meta(t).grad = grad;
}

Tensor shallow_alias(const Tensor& t) {
  if (answers_in_python(t)) [[unlikely]] {
    const DispatchKeySet excluded(thread_state.excluded);
    if (!excluded.has(DispatchKey::BackendMode)) return operators::detached_in_python(t);
  }
  Tensor alias(make_intrusive<TensorImpl>(t.storage(), t.dtype(), t.device()));
  alias.impl()->set_geometry(t.sizes(), t.strides(), t.storage_offset());
  alias.impl()->add_keys(t.keys() - DispatchKeySet(DispatchKey::Autograd));
  alias.impl()->share_version_counter(*t.impl());
  alias.impl()->set_wrapped_number(t.impl()->is_wrapped_number());
  if (WrapperBase* wrapper = t.impl()->wrapper()) [[unlikely]]
    alias.impl()->set_wrapper(intrusive_ptr<WrapperBase>::share(wrapper));
  if (t.impl()->is_inference()) {
    alias.impl()->set_inference(true);
    alias.impl()->add_keys(DispatchKey::Autograd);
  }
  return alias;
}

Tensor detach(const Tensor& t) { return shallow_alias(t); }

Tensor variable_data(const Tensor& t) {
  Tensor data = shallow_alias(t);
  data.impl()->detach_version_counter(0);
  return data;
}

void detach_inplace(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return;
  check(!meta->is_view,
        "Can't detach views in-place: detach() makes another tensor and leaves the view as it is");
  meta->requires_grad = false;
  meta->grad_fn.reset();
  meta->output_nr = 0;
  if (!forward_grad_slow(t).defined()) t.impl()->remove_keys(DispatchKey::Autograd);
}

void set_data(const Tensor& t, const Tensor& data) {
  // The other way round, a tensor whose class is asked for its results takes over memory.
  check(
      answers_in_python(t) || !answers_in_python(data),
      "set_data: expected data of a class without __torch_dispatch__, as the tensor's is, got data "
      "of a class with one (incompatible tensor type)");
  check(!t.impl()->wrapper() && !data.impl()->wrapper(),
        "set_data: expected tensors outside of function transforms, got a tensor of a transform");
  check(is_sparse(t) == is_sparse(data), "set_data: expected data of the tensor's layout, got one ",
        "strided and one sparse tensor");
  check(t.device().type == data.device().type || !requires_grad(t),
        "set_data: expected a tensor of the same device type, got ", data.device());
  check(!requires_grad(t) || is_differentiable_type(data.dtype()),
        "set_data: expected a floating or complex dtype for a tensor that requires gradients, got ",
        data.dtype());
  // The accumulator knows the old shape.
  if (AutogradMeta* meta = meta_of(t)) {
    const MetaLock lock(*meta);
    if (t.dtype() != data.dtype() || t.sizes() != data.sizes()) meta->accumulator = {};
  }
  // The writes that the other memory has seen are not writes to this tensor or to its base. A fake
  // tensor stands for one whose memory set_ has replaced, too, and takes the count of the memory.
  ViewMeta* const view = view_meta_of(t);
  const bool is_current = view && view->grad_version == t.impl()->version();
  if (!answers_in_python(t)) t.impl()->detach_version_counter(t.impl()->version());
  t.impl()->shallow_copy_from(*data.impl());
  if (!is_current) return;
  const MetaLock lock(*view);
  view->grad_version = t.impl()->version();
}

void retain_grad(const Tensor& t) {
  check(requires_grad(t), "can't retain_grad: the tensor has requires_grad=False");
  if (is_leaf(t) || meta_of(t)->retains_grad) return;
  const intrusive_ptr<Node> node = grad_fn(t);
  AutogradMeta& meta = *meta_of(t);
  meta.retains_grad = true;
  node->make_extras().retained.push_back(
      {meta.output_nr, weak_intrusive_ptr<TensorImpl>(t.impl_ptr())});
}

bool retains_grad(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta && meta->retains_grad && !is_leaf(t);
}

HookList<TensorHook>* tensor_hooks_of(const Tensor& t) {
  check(requires_grad(t), "cannot register a hook: no gradient is computed for this tensor");
  if (const intrusive_ptr<Node> node = grad_fn(t)) return &node->make_extras().tensor_hooks;
  return &make_meta(t).make_extras().leaf_hooks;
}

uint64_t add_tensor_hook(const Tensor& t, intrusive_ptr<TensorHook> hook) {
  return tensor_hooks_of(t)->add(std::move(hook), is_leaf(t) ? 0 : meta_of(t)->output_nr);
}

uint64_t add_accumulate_hook(const Tensor& leaf, intrusive_ptr<AccumulateHook> hook) {
  check(requires_grad(leaf), "cannot register a hook: no gradient is computed for this tensor");
  check(is_leaf(leaf),
        "register_post_accumulate_grad_hook: expected a leaf, got a non-leaf tensor");
  return make_meta(leaf).make_extras().accumulate_hooks.add(std::move(hook));
}

void remove_accumulate_hook(const Tensor& leaf, uint64_t id) {
  if (AutogradMeta* meta = meta_of(leaf); meta && meta->extras)
    meta->extras->accumulate_hooks.remove(id);
}

Tensor sum_to_size(const Tensor& grad, IntArrayRef sizes) {
  if (grad.sizes() == sizes) return grad;
  const size_t lead = grad.sizes().size() - sizes.size();
  DimVector leading, kept;
  for (size_t d = 0; d < lead; ++d) leading.push_back(static_cast<int64_t>(d));
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1 && grad.sizes()[lead + d] != 1) kept.push_back(static_cast<int64_t>(d));
  }
  Tensor result = grad;
  if (!leading.empty()) result = operators::sum_dims(result, leading, false);
  if (!kept.empty()) result = operators::sum_dims(result, kept, true);
  return result;
}

}  // namespace flambeau::autograd
