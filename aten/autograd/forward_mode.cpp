// Forward mode: tangents beside tensors, for as long as one level is entered. A transform's
// tangents hang on tensors of its own and die with them.
#include <algorithm>
#include <mutex>

#include "aten/autograd/operators.h"
#include "aten/autograd/transform_hooks.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"

namespace flambeau::autograd {

std::atomic<int> forward_levels{0};
bool (*belongs_to_jvp)(const TensorImpl& impl) = nullptr;
bool (*can_hold)(const Tensor& target, const Tensor& value) = nullptr;

namespace {

std::atomic<bool> plain_level{false};  // entered by enter_forward_level

std::mutex level_mutex;
std::vector<weak_intrusive_ptr<TensorImpl>> level_tensors;  // all that got a tangent in this level

Tensor zeros_shaped(const Tensor& t) {
  Tensor zeros = empty_like_tensor(t);
  if (!zeros.is_meta()) fill_with(zeros, 0);
  return zeros;
}

void assign_tangent(const Tensor& t, const Tensor& tangent) {
  make_meta(t).make_extras().tangent = tangent;
  t.impl()->add_keys(DispatchKey::Autograd);
  if (t.impl()->wrapper() && belongs_to_jvp(*t.impl())) return;
  const std::lock_guard<std::mutex> lock(level_mutex);
  level_tensors.emplace_back(t.impl_ptr());
}

// The tangent in the memory order of its tensor, so that as_strided finds the same elements in
// both.
Tensor laid_out_as(const Tensor& t, const Tensor& tangent) {
  const bool stays = tangent.strides() == t.strides() || tangent.sizes() != t.sizes() ||
                     !t.impl()->is_non_overlapping_and_dense();
  if (stays) return tangent;
  Tensor moved = operators::zeros_strided(tangent, t.sizes(), t.strides());
  operators::copy_inplace(moved, tangent);
  return moved;
}

// `whole` becomes the tangent of the view's base, and its window, with `part` in it, the view's.
void assign_window(const ViewMeta& view, const Tensor& t, const Tensor& whole, const Tensor& part) {
  const Tensor& base = view.base;
  Tensor window = operators::as_strided(whole, t.sizes(), t.strides(),
                                        t.storage_offset() - base.storage_offset());
  operators::copy_inplace(window, part);
  assign_tangent(base, whole);
  mark_requires_grad(base);  // its other views have a tangent, too
  assign_tangent(t, window);
}

// The tangent that `t` has lacks the batch of the new one, which cannot be written into it.
void widen_tangent(const Tensor& t, const Tensor& current, const Tensor& value) {
  const ViewMeta* view = view_meta_of(t);
  const Tensor whole = view ? forward_grad_slow(view->base) : Tensor();
  if (!whole.defined()) return assign_tangent(t, value);
  const Tensor zero = operators::add(operators::zeros_strided(current, {}, {}),
                                     operators::zeros_strided(value, {}, {}));
  Tensor widened = operators::zeros_strided(zero, whole.sizes(), view->base.strides());
  operators::copy_inplace(widened, whole);
  assign_window(*view, t, widened, value);
}

// The history of an alias: the same node's output, or the same accumulator.
void share_history(const Tensor& alias, const Tensor& t) {
  Edge edge = gradient_edge(t);
  if (!edge.is_valid()) return;
  AutogradMeta& meta = make_meta(alias);
  meta.grad_fn = std::move(edge.function);
  meta.output_nr = edge.input_nr;
  alias.impl()->add_keys(DispatchKey::Autograd);
}

}  // namespace

Tensor forward_grad_slow(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (!meta) return {};
  if (meta->extras && meta->extras->tangent.defined()) return meta->extras->tangent;
  // The base may have got its tangent, through another view, after this one was made.
  const ViewMeta* view = view_meta_of(t);
  const AutogradMeta* of_base = view ? meta_of(view->base) : nullptr;
  if (!of_base || !of_base->extras || !of_base->extras->tangent.defined()) return {};
  const Tensor& base = view->base;
  const Tensor whole = of_base->extras->tangent;
  if (base.dtype() != t.dtype() || whole.strides() != base.strides()) return {};
  Tensor window =
      operators::as_strided(whole, t.sizes(), t.strides(),
                            whole.storage_offset() + t.storage_offset() - base.storage_offset());
  assign_tangent(t, window);
  return window;
}

bool has_forward_grad_one(const Tensor& t) { return forward_grad(t).defined(); }

bool has_forward_grad_one(TensorList list) {
  return std::any_of(list.begin(), list.end(),
                     [](const Tensor& t) { return has_forward_grad_one(t); });
}

Tensor forward_grad_or_zeros(const Tensor& t) {
  if (!t.defined()) return {};
  Tensor tangent = forward_grad(t);
  return tangent.defined() ? tangent : zeros_shaped(t);
}

std::vector<Tensor> forward_grad_or_zeros(TensorList list) {
  std::vector<Tensor> tangents;
  tangents.reserve(list.size());
  for (const Tensor& t : list) tangents.push_back(forward_grad_or_zeros(t));
  return tangents;
}

void set_forward_grad(const Tensor& t, const Tensor& tangent) {
  if (!t.defined() || !is_differentiable_type(t.dtype())) return;
  Tensor current = forward_grad_slow(t);
  if (current.defined()) {
    // A change of geometry alone: the tangent has become another view of its memory.
    if (tangent.defined() && tangent.storage() == current.storage())
      return assign_tangent(t, tangent);
    const Tensor value = tangent.defined() ? tangent : zeros_shaped(t);
    if (!t.impl()->wrapper() || can_hold(current, value)) {
      // In place: all that share the tangent, such as the views of `t`, see the new one.
      return operators::copy_inplace(current, value);
    }
    return widen_tangent(t, current, value);
  }
  if (!tangent.defined()) return;
  const ViewMeta* view = view_meta_of(t);
  if (!view || forward_grad_slow(view->base).defined() || view->base.dtype() != t.dtype()) {
    return assign_tangent(t, view ? tangent : laid_out_as(t, tangent));
  }
  // A view of a base without tangent was changed in place: the base gets zeros with this window.
  assign_window(*view, t,
                operators::zeros_strided(tangent, view->base.sizes(), view->base.strides()),
                tangent);
}

void set_forward_grad(TensorList list, TensorList tangents) {
  for (size_t i = 0; i < list.size() && i < tangents.size(); ++i)
    set_forward_grad(list[i], tangents[i]);
}

Tensor primal_of(const Tensor& t) {
  if (!has_forward_grad_one(t)) return t;
  Tensor primal = shallow_alias(t);
  share_history(primal, t);
  return primal;
}

int enter_forward_level() {
  check(!plain_level.exchange(true),
        "Nested forward mode is not supported: a level is entered already");
  ++forward_levels;
  return 0;
}

void exit_forward_level(int level) {
  check(level == 0 && plain_level.exchange(false),
        "exit_dual_level: expected an entered forward AD level, got ", level);
  --forward_levels;
  std::vector<weak_intrusive_ptr<TensorImpl>> tensors;
  {
    const std::lock_guard<std::mutex> lock(level_mutex);
    tensors.swap(level_tensors);
  }
  for (const auto& weak : tensors) {
    const Tensor t(weak.lock());
    if (!t.defined() || !meta_of(t) || !meta_of(t)->extras) continue;
    meta_of(t)->extras->tangent.reset();
    if (!requires_grad(t)) t.impl()->remove_keys(DispatchKey::Autograd);
  }
}

Tensor make_dual(const Tensor& tensor, const Tensor& tangent) {
  const bool in_jvp = tensor.impl()->wrapper() && belongs_to_jvp(*tensor.impl());
  check(in_jvp || plain_level.load(),
        "no level exists to hold a dual tensor: call enter_dual_level() first");
  check_value(is_floating_type(tensor.dtype()) || is_complex_type(tensor.dtype()),
              "Expected primal of a floating or complex dtype, got ", tensor.dtype());
  check(tensor.sizes() == tangent.sizes(), "expected a tangent of its tensor's size ",
        tensor.sizes(), ", got ", tangent.sizes());
  check(!has_forward_grad_one(tensor), "Expected a primal without a tangent, got a dual tensor");
  Tensor dual = shallow_alias(tensor);
  share_history(dual, tensor);
  const bool fits = tangent.dtype() == tensor.dtype();
  assign_tangent(dual, fits ? tangent : operators::to_dtype(tangent, tensor.dtype()));
  return dual;
}

}  // namespace flambeau::autograd
