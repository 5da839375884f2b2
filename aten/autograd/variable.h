#pragma once
// A tensor's place in the graph: what generated wrappers and the binding ask and change.
#include "aten/autograd/autograd_meta.h"
#include "aten/core/view.h"
#include "c10/core/thread_state.h"

namespace flambeau::autograd {

// --- asking -------------------------------------------------------------------------------------

// A tensor carries the Autograd key while it requires a gradient or has a forward tangent.
bool requires_grad_slow(const Tensor& t);
inline bool requires_grad(const Tensor& t) {
  return t.defined() && t.keys().has(DispatchKey::Autograd) && requires_grad_slow(t);
}
inline bool requires_grad(TensorList list) {
  for (const Tensor& t : list) {
    if (requires_grad(t)) return true;
  }
  return false;
}
// Whether a call on these arguments must be recorded. Takes Tensors and TensorLists.
template <typename... Args>
[[gnu::always_inline]] inline bool any_requires_grad(const Args&... args) {
  return thread_state.grad_enabled && (requires_grad(args) || ...);
}
// The node that made `t`; null for a leaf. Of a view whose base has changed, a fresh one.
intrusive_ptr<Node> grad_fn(const Tensor& t);
bool is_leaf(const Tensor& t);
// Where the gradient of `t` goes: its grad_fn, its accumulator if it is a leaf, else an empty edge.
Edge gradient_edge(const Tensor& t);
intrusive_ptr<Node> grad_accumulator(const Tensor& leaf);
bool is_view(const Tensor& t);
// The tensor that `view` was made from; undefined if it is not a view.
Tensor base_of(const Tensor& view);

// --- recording (generated wrappers) -------------------------------------------------------------

// `t` is the next output of `node`. Non-differentiable and undefined tensors take a slot without
// history.
void set_history(const Tensor& t, Node& node);
// `t` is output `output_nr` of `node`.
void set_history(const Tensor& t, Node& node, uint32_t output_nr);
template <typename T>
void set_history(const Tensor& t, const intrusive_ptr<T>& node) {
  set_history(t, *node);
}
template <typename T>
void set_history(const Tensor& t, const intrusive_ptr<T>& node, uint32_t output_nr) {
  set_history(t, *node, output_nr);
}
template <typename T>
void set_history(TensorList list, const intrusive_ptr<T>& node) {
  for (const Tensor& t : list) set_history(t, *node);
}
// Before an in-place operation on `self`: refuses leaves, views of leaves, inference tensors and
// views that cannot be tracked. `records`: the operation will be recorded.
void check_inplace_grad(const Tensor& self, bool records);
// After an in-place operation on `self`: it is now the next output of `node`; the base of a view
// gets a history that passes through `node` for the view's part.
void rebase_history(const Tensor& self, Node& node);
template <typename T>
void rebase_history(const Tensor& self, const intrusive_ptr<T>& node) {
  rebase_history(self, *node);
}
// Gives `t`, whose history or flag was just set, and its views the Autograd key.
void mark_requires_grad(const Tensor& t);

// --- changing (binding) -------------------------------------------------------------------------

void set_requires_grad(const Tensor& t, bool requires_grad);
Tensor grad_of(const Tensor& t);  // .grad, possibly undefined
void set_grad(const Tensor& t, const Tensor& grad);
// The dtype that gradients of a leaf are cast to, which is the leaf's own unless it was set.
// Undefined: they stay as they are.
ScalarType grad_dtype(const Tensor& leaf);
void set_grad_dtype(const Tensor& leaf, ScalarType dtype);
// Shares data and version counter, has no history.
Tensor detach(const Tensor& t);
void detach_inplace(const Tensor& t);
// Shares data only: `.data`.
Tensor variable_data(const Tensor& t);
void set_data(const Tensor& t, const Tensor& data);
void retain_grad(const Tensor& t);
bool retains_grad(const Tensor& t);
uint64_t add_tensor_hook(const Tensor& t, intrusive_ptr<TensorHook> hook);
uint64_t add_accumulate_hook(const Tensor& leaf, intrusive_ptr<AccumulateHook> hook);
void remove_accumulate_hook(const Tensor& leaf, uint64_t id);
// The list that add_tensor_hook put a hook into now; ids count per list.
HookList<TensorHook>* tensor_hooks_of(const Tensor& t);

// A tensor over the same storage, with the same geometry, without autograd.
Tensor shallow_alias(const Tensor& t);

// --- forward mode -------------------------------------------------------------------------------

// Number of forward levels entered (0 or 1).
extern std::atomic<int> forward_levels;
Tensor forward_grad_slow(const Tensor& t);
// The tangent of `t`; undefined if it has none.
inline Tensor forward_grad(const Tensor& t) {
  const bool may_have = t.defined() && forward_levels.load(std::memory_order_relaxed) &&
                        t.keys().has(DispatchKey::Autograd) && thread_state.forward_grad_enabled;
  return may_have ? forward_grad_slow(t) : Tensor();
}
bool has_forward_grad_one(const Tensor& t);
bool has_forward_grad_one(TensorList list);
// Takes Tensors and TensorLists.
template <typename... Args>
[[gnu::always_inline]] inline bool has_forward_grad(const Args&... args) {
  if (!forward_levels.load(std::memory_order_relaxed)) [[likely]]
    return false;
  return (has_forward_grad_one(args) || ...);
}
Tensor forward_grad_or_zeros(const Tensor& t);
std::vector<Tensor> forward_grad_or_zeros(TensorList list);
void set_forward_grad(const Tensor& t, const Tensor& tangent);
void set_forward_grad(TensorList list, TensorList tangents);
// `t` without tangent (same history): the primal of formulas.
Tensor primal_of(const Tensor& t);
// RuntimeError if a level is entered already.
int enter_forward_level();
void exit_forward_level(int level);
// A new tensor with `tensor`'s data and history and this tangent.
Tensor make_dual(const Tensor& tensor, const Tensor& tangent);

// Sums `grad` to `sizes`, to which it broadcasts. Differentiable.
Tensor sum_to_size(const Tensor& grad, IntArrayRef sizes);

}  // namespace flambeau::autograd
