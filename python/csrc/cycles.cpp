#include "python/csrc/cycles.h"

#include "aten/autograd/accumulate_grad.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {

using autograd::AutogradMeta;
using autograd::Node;

bool is_sole_owner(const Tensor& held) {
  return held.defined() && held.impl()->use_count() == 1 && !any_thread_at_work();
}
bool is_sole_owner(const intrusive_ptr<Node>& held) {
  return held && held->use_count() == 1 && !any_thread_at_work();
}

int OwnedObjects::show(const Tensor& held) {
  if (!is_sole_owner(held)) return 0;
  look_into(*held.impl());
  return finish();
}

int OwnedObjects::show(const intrusive_ptr<Node>& held) {
  if (!is_sole_owner(held)) return 0;
  look_into(*held);
  return finish();
}

int OwnedObjects::finish() {
  while (status_ == 0 && (!tensors_.empty() || !nodes_.empty()) && budget_-- > 0) {
    if (!tensors_.empty()) {
      TensorImpl* impl = tensors_.back();
      tensors_.pop_back();
      look_into(*impl);
    } else {
      Node* node = nodes_.back();
      nodes_.pop_back();
      look_into(*node);
    }
  }
  return status_;
}

bool OwnedObjects::is_owned(const RefCounted& object) {
  const uint32_t users = object.use_count();
  return users == 1 || ++met_[&object] == users;
}

void OwnedObjects::meet(const Tensor& t) {
  if (t.defined() && is_owned(*t.impl())) tensors_.push_back(t.impl());
}

void OwnedObjects::meet(const intrusive_ptr<Node>& node) {
  if (node && is_owned(*node)) nodes_.push_back(node.get());
}

void OwnedObjects::show_object(void* object) {
  if (object && status_ == 0) status_ = visit_(static_cast<PyObject*>(object), arg_);
}

template <typename Hook>
void OwnedObjects::show_hooks(const autograd::HookList<Hook>& list) {
  if (list.empty()) return;
  constexpr uint32_t kListAndCopy = 2;
  for (const auto& entry : list.entries()) {
    if (entry.hook->use_count() == kListAndCopy) show_object(function_of(*entry.hook));
  }
}

void OwnedObjects::look_into(TensorImpl& impl) {
  const PyObjectSlot& slot = impl.py_slot();
  if (slot.owned_by_impl) show_object(slot.object);
  const auto* meta = static_cast<const AutogradMeta*>(impl.autograd_meta());
  if (!meta) return;
  if (meta->extras) {
    show_hooks(meta->extras->leaf_hooks);
    show_hooks(meta->extras->accumulate_hooks);
    meet(meta->extras->tangent);
  }
  meet(meta->grad);
  meet(meta->grad_fn);
  if (meta->is_view) meet(static_cast<const autograd::ViewMeta*>(meta)->base);
}

void OwnedObjects::look_into(Node& node) {
  show_object(context_of(node));
  if (const autograd::NodeExtras* extras = node.extras()) {
    show_hooks(extras->tensor_hooks);
    show_hooks(extras->pre_hooks);
    show_hooks(extras->post_hooks);
    show_object(extras->metadata);
    meet(extras->creator);
  }
  for (size_t i = 0; i < node.num_edges(); ++i) meet(node.edge(i).function);
  if (node.accumulates()) meet(static_cast<autograd::AccumulateGrad&>(node).variable());
}

}  // namespace flambeau::python
