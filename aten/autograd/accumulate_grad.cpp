#include "aten/autograd/accumulate_grad.h"

#include "aten/autograd/engine.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/stand_in.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "aten/core/sparse.h"

namespace flambeau::autograd {

namespace {

// Whether only `holders` can see the elements of `t`, so that `t` itself may become a .grad.
bool belongs_to(uint32_t holders, const Tensor& t) {
  if (t.impl()->use_count() > holders || t.impl()->wrapper() || t.is_conj() || t.is_neg())
    return false;
  const ViewMeta* view = view_meta_of(t);
  // A view whose base only the view itself keeps.
  const uint32_t owners = view && view->base.impl()->use_count() == 1 ? 2 : 1;
  return t.storage()->use_count() <= owners;
}

// .grad has the memory order of a dense variable, else is row-major.
bool has_grad_layout(const Tensor& grad, const Tensor& variable) {
  if (variable.impl()->is_non_overlapping_and_dense()) return grad.strides() == variable.strides();
  return grad.is_contiguous();
}

Tensor without_meta(Tensor&& t) {
  return t.impl()->autograd_meta() ? shallow_alias(t) : std::move(t);
}

// The first gradient of a variable: taken over if only `holders` have it, else copied.
Tensor first_grad(Tensor&& grad, const Tensor& variable, uint32_t holders) {
  if (!thread_state.grad_enabled && answers_in_python(grad) && variable.is_contiguous() &&
      !grad.is_contiguous())
    return operators::clone_contiguous(grad);
  if (thread_state.grad_enabled || stands_for_another(grad)) return operators::clone(grad);
  if (is_sparse(grad))
    return belongs_to(holders, grad) ? without_meta(std::move(grad)) : operators::clone(grad);
  if (belongs_to(holders, grad) && has_grad_layout(grad, variable))
    return without_meta(std::move(grad));
  Tensor copy =
      variable.impl()->is_non_overlapping_and_dense()
          ? empty_strided_tensor(variable.sizes(), variable.strides(), grad.dtype(), grad.device())
          : empty_tensor(grad.sizes(), grad.dtype(), grad.device());
  if (!copy.is_meta()) copy_into(copy, grad);
  return copy;
}

}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& variable) : variable_(variable) {
  // Sinks run as soon as they are ready, so that the gradient is added while it is in cache.
  set_sequence_nr(UINT64_MAX);
  set_accumulates();
  add_output(variable);
  const AutogradMeta* meta = meta_of(variable);
  if (meta && meta->extras && meta->extras->grad_dtype)
    set_gradient_dtype(*meta->extras->grad_dtype);
}

void AccumulateGrad::accumulate(Tensor&& grad) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Tensor& sum = make_meta(variable_).grad;
  if (!sum.defined()) {
    // Post hooks are shown the memory that has become .grad.
    const bool shown = extras() && !extras()->post_hooks.empty();
    sum = first_grad(std::move(grad), variable_, shown ? 2 : 1);
  } else if (thread_state.grad_enabled || stands_for_another(grad) || stands_for_another(sum) ||
             (is_sparse(sum) && !is_sparse(grad))) {
    sum = operators::add(sum, grad);
  } else {
    operators::add_inplace(sum, grad);
  }
}

Gradients AccumulateGrad::apply(Gradients&& grads) {
  if (!grads[0].defined() || !requires_grad(variable_)) return {};
  accumulate(std::move(grads[0]));
  const AutogradMeta* meta = meta_of(variable_);
  if (meta->extras && !meta->extras->accumulate_hooks.empty()) {
    const UserCodeScope scope;
    for (const auto& entry : meta->extras->accumulate_hooks.entries()) entry.hook->call(variable_);
  }
  return {};
}

}  // namespace flambeau::autograd
