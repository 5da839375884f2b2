// Views and in-place operations: a view knows its base; an in-place operation on a view becomes
// part of the base's history, through a node that applies the operation's backward to the view's
// window.
#include "aten/autograd/engine.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/stand_in.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"

namespace flambeau::autograd {

namespace {

struct Geometry {
  explicit Geometry(const Tensor& t)
      : sizes(t.sizes()),
        strides(t.strides()),
        offset(t.storage_offset()),
        dtype(t.dtype()),
        device(t.device()),
        flips(t.keys() & kLazyKeys) {}
  Tensor zeros() const {
    Tensor t = empty_strided_tensor(sizes, strides, dtype, device);
    if (!t.is_meta()) fill_with(t, 0);
    return t;
  }
  DimVector sizes, strides;
  int64_t offset;
  ScalarType dtype;
  Device device;
  DispatchKeySet flips;  // what reading conjugates or negates
};

// Whether a view of `view`'s type holds the base's numbers: the same ones, or complex numbers seen
// as pairs of real ones, or the other way round.
bool holds_same_numbers(ScalarType base, ScalarType view) {
  return base == view || (is_complex_type(base) && to_real_type(base) == view) ||
         (is_complex_type(view) && to_real_type(view) == base);
}

// What reading the view conjugates or negates beside what reading the base does. A real view of a
// conjugate view sees its imaginary parts negated.
DispatchKeySet flips_between(const Geometry& base, const Geometry& view) {
  DispatchKeySet flips = base.flips ^ view.flips;
  if (is_complex_type(base.dtype) && !is_complex_type(view.dtype) &&
      base.flips.has(DispatchKey::Conjugate)) {
    const bool imaginary = (view.offset - 2 * base.offset) % 2 != 0;
    flips = (flips - DispatchKeySet(DispatchKey::Conjugate)) ^
            (imaginary ? DispatchKeySet(DispatchKey::Negative) : DispatchKeySet());
  }
  return flips;
}

Tensor flipped(Tensor window, DispatchKeySet flips) {
  if (flips.has(DispatchKey::Conjugate)) window = operators::conj_view(window);
  return flips.has(DispatchKey::Negative) ? operators::neg_view(window) : window;
}

Tensor plain_window_of(const Tensor& t, const Geometry& base, const Geometry& view) {
  if (base.dtype == view.dtype) {
    return operators::as_strided(t, view.sizes, view.strides, view.offset - base.offset);
  }
  if (is_complex_type(base.dtype)) {
    return operators::as_strided(operators::view_as_real(t), view.sizes, view.strides,
                                 view.offset - 2 * base.offset);
  }
  DimVector sizes = view.sizes, strides = view.strides;
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return operators::view_as_complex(
      operators::as_strided(t, sizes, strides, 2 * view.offset - base.offset));
}

// The elements of `t`, which starts where its storage does and is laid out as `base`, that `view`
// sees.
Tensor window_of(const Tensor& t, const Geometry& base, const Geometry& view) {
  return flipped(plain_window_of(t, base, view), flips_between(base, view));
}

// Backward of "this window of base": puts the gradient into zeros of the base's geometry.
struct WindowBackward final : Node {
  WindowBackward(const Tensor& base, const Tensor& view) : base_(base), view_(view) {
    add_edge(gradient_edge(base));
    add_output(view);
  }
  const char* name() const override { return "AsStridedBackward0"; }
  Gradients apply(Gradients&& grads) override {
    Gradients out(1);
    if (!grads[0].defined() || !should_compute(0)) return out;
    out[0] = base_.dtype == view_.dtype
                 ? operators::zeros_strided(grads[0], base_.sizes, base_.strides)
                 : base_.zeros();
    Tensor window = window_of(out[0], base_, view_);
    // Elements of a view may coincide (expand): their gradients add up.
    if (has_overlap()) return summed(std::move(out), grads[0]);
    operators::copy_inplace(window, grads[0]);
    return out;
  }

 private:
  bool has_overlap() const {
    for (size_t d = 0; d < view_.sizes.size(); ++d) {
      if (view_.strides[d] == 0 && view_.sizes[d] > 1) return true;
    }
    return false;
  }
  Gradients summed(Gradients&& out, const Tensor& grad) const {
    Geometry once = view_;
    for (size_t d = 0; d < once.sizes.size(); ++d) {
      if (once.strides[d] == 0) once.sizes[d] = 1;
    }
    Tensor window = window_of(out[0], base_, once);
    operators::copy_inplace(window, sum_to_size(grad, once.sizes));
    return std::move(out);
  }
  Geometry base_, view_;
};

// History of a base after an in-place operation on its view: outside of the view the gradient
// passes, inside it goes through the operation's own node. Edge 0 leads to the base's earlier
// history.
struct CopySlices final : Node {
  CopySlices(const Tensor& base, const Tensor& view, intrusive_ptr<Node> inner)
      : base_(base), view_(view), inner_(std::move(inner)) {
    add_edge(gradient_edge(base));
    for (size_t i = 1; i < inner_->num_edges(); ++i) add_edge(inner_->edge(i));
    add_output(base);
    if (inner_->runs_user_code()) set_runs_user_code();
  }
  const char* name() const override { return "CopySlices"; }
  void release_saved() override { inner_->release_saved(); }
  Gradients apply(Gradients&& grads) override {
    Gradients out(num_edges());
    if (!grads[0].defined()) return out;
    if (DispatchKeySet(thread_state.included).has(DispatchKey::FuncTorch) ||
        answers_in_python(grads[0]))
      return apply_to_wrapper(grads[0], std::move(out));
    Tensor result = empty_strided_tensor(base_.sizes, base_.strides, base_.dtype, base_.device);
    operators::copy_inplace(result, grads[0]);
    Tensor window = window_of(result, base_, view_);
    const Gradients inner = pass_inside(operators::clone(window), out);
    if (!should_compute(0)) return out;
    const bool has_grad = inner.size() > 0 && inner[0].defined();
    operators::copy_inplace(window, has_grad ? inner[0] : Geometry(window).zeros());
    out[0] = std::move(result);
    return out;
  }

 private:
  // Gradients of the operation's inputs, given that of the window; those of edges 1 and up go to
  // `out`.
  Gradients pass_inside(Tensor grad, Gradients& out) {
    Gradients inner_grads(1);
    inner_grads[0] = std::move(grad);
    Gradients inner = inner_->apply(std::move(inner_grads));
    for (size_t i = 1; i < inner.size() && i < out.size(); ++i) {
      if (should_compute(i)) out[i] = std::move(inner[i]);
    }
    return inner;
  }
  // Of a function transform's tensor: the gradient in the window may be batched where the one
  // outside of it is not, so that it cannot be written into a copy of that.
  Gradients apply_to_wrapper(const Tensor& grad, Gradients&& out) {
    Tensor whole = operators::zeros_strided(grad, base_.sizes, base_.strides);
    operators::copy_inplace(whole, grad);
    const Gradients inner = pass_inside(operators::clone(window_of(whole, base_, view_)), out);
    if (!should_compute(0)) return std::move(out);
    Tensor inside = inner.size() > 0 ? inner[0] : Tensor();
    if (!inside.defined()) inside = operators::zeros_strided(grad, view_.sizes, view_.strides);
    const Tensor zero = operators::add(operators::zeros_strided(grad, {}, {}),
                                       operators::zeros_strided(inside, {}, {}));
    out[0] = operators::zeros_strided(zero, base_.sizes, base_.strides);
    operators::copy_inplace(out[0], whole);
    Tensor window = window_of(out[0], base_, view_);
    operators::copy_inplace(window, inside);
    return std::move(out);
  }

  Geometry base_, view_;
  intrusive_ptr<Node> inner_;
};

void link_view(const Tensor& base, ViewMeta& view) {
  AutogradMeta& meta = make_meta(base);
  const MetaLock lock(meta);
  view.next = meta.views;
  view.link = &meta.views;
  if (meta.views) meta.views->link = &view.next;
  meta.views = &view;
  view.is_linked = true;
}

void unlink_view(ViewMeta& view) {
  if (!view.is_linked) return;
  const MetaLock lock(*meta_of(view.base));
  *view.link = view.next;
  if (view.next) view.next->link = view.link;
  view.is_linked = false;
}

void note_new_view(const Tensor& self, const Tensor& result, bool multi_output) {
  const ViewMeta* parent = view_meta_of(self);
  auto meta = std::make_unique<ViewMeta>();
  meta->is_view = true;
  meta->base = parent ? parent->base : self;
  meta->self = result.impl();
  meta->grad_version = result.impl()->version();
  meta->of_recorded = requires_grad(self);
  meta->origin = thread_state.inference_mode  ? ViewOrigin::Inference
                 : !thread_state.grad_enabled ? ViewOrigin::NoGrad
                 : multi_output               ? ViewOrigin::MultiOutput
                                              : ViewOrigin::Default;
  if (parent && parent->origin != ViewOrigin::Default && thread_state.grad_enabled)
    meta->origin = parent->origin;
  ViewMeta& view = *meta;
  result.impl()->set_autograd_meta(std::move(meta));
  if (requires_grad(view.base)) {
    if (is_differentiable_type(result.dtype())) result.impl()->add_keys(DispatchKey::Autograd);
  } else if (is_differentiable_type(view.base.dtype())) {
    link_view(view.base, view);
  }
}

[[maybe_unused]] const bool installed = (note_view = note_new_view, true);

// A tensor that retains its gradient retains the one of its newest value.
void move_retained(const Tensor& t, const AutogradMeta& meta, Node& to, uint32_t output_nr) {
  if (!meta.retains_grad || !meta.grad_fn || !meta.grad_fn->extras()) return;
  std::erase_if(meta.grad_fn->extras()->retained,
                [&](const NodeExtras::Retained& r) { return r.tensor.unsafe_get() == t.impl(); });
  to.make_extras().retained.push_back({output_nr, weak_intrusive_ptr<TensorImpl>(t.impl_ptr())});
}

constexpr const char* kReplace = "; compute a new tensor instead";

// `done`: what happened to the view itself, or to its base so that the view's history is to be
// rebased.
void check_view_origin(const ViewMeta& view, const char* done) {
  if (view.origin == ViewOrigin::Default) return;
  const std::string what =
      view.grad_fn ? text_of("Output ", view.output_nr, " of ", view.grad_fn->name()) : "A view";
  switch (view.origin) {
    case ViewOrigin::NoGrad:
      fail(ErrorKind::Runtime, "A view was created in no_grad mode and ", done,
           " with grad mode "
           "enabled, which is ambiguous. Move both into the no_grad block, or both out of it.");
    case ViewOrigin::Inference:
      fail(ErrorKind::Runtime, "A view was created in inference mode and ", done,
           " in normal mode, which is ambiguous. Move both into the inference_mode block, or both "
           "out of it.");
    case ViewOrigin::MultiOutput:
      fail(ErrorKind::Runtime, what, " is a view and ", done,
           "; its function returns multiple views, none of which may change", kReplace);
    case ViewOrigin::CustomFunction:
      fail(ErrorKind::Runtime, what, " is a view and ", done,
           "; a custom Function made it, whose backward would be lost", kReplace);
    default:
      break;
  }
}

}  // namespace

ViewMeta::~ViewMeta() { unlink_view(*this); }

bool is_view(const Tensor& t) { return view_meta_of(t) != nullptr; }

Tensor base_of(const Tensor& view) {
  const ViewMeta* meta = view_meta_of(view);
  return meta ? meta->base : Tensor();
}

void mark_requires_grad(const Tensor& t) {
  t.impl()->add_keys(DispatchKey::Autograd);
  AutogradMeta* meta = meta_of(t);
  if (!meta->views) return;
  const MetaLock lock(*meta);
  for (ViewMeta* v = meta->views; v; v = v->next) {
    if (is_differentiable_type(v->self->dtype())) v->self->add_keys(DispatchKey::Autograd);
  }
}

intrusive_ptr<Node> grad_fn(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return {};
  if (!meta->is_view) return meta->grad_fn;
  ViewMeta& view = *static_cast<ViewMeta*>(meta);
  const MetaLock lock(view);
  const uint32_t version = t.impl()->version();
  if (view.grad_version == version || (!view.grad_fn && !requires_grad(view.base)))
    return view.grad_fn;
  if (view.requires_grad) return {};  // a leaf by the user's word
  check_view_origin(view, "the base has been modified inplace, directly or through another view");
  check(holds_same_numbers(view.base.dtype(), t.dtype()),
        "the base of a view with another dtype was modified in place: expected ", view.base.dtype(),
        ", got ", t.dtype());
  intrusive_ptr<Node> window = make_node<WindowBackward>(view.base, t);
  move_retained(t, view, *window, 0);
  view.grad_fn = std::move(window);
  view.output_nr = 0;
  view.grad_version = version;
  return view.grad_fn;
}

void check_inplace_grad(const Tensor& self, bool records) {
  if (self.impl()->is_inference()) {
    check(thread_state.inference_mode,
          "Inplace update to inference tensor: expected inference mode, got normal mode; change a "
          "clone() instead");
    return;
  }
  if (!records || !thread_state.grad_enabled) return;
  const ViewMeta* view = view_meta_of(self);
  if (view && is_differentiable_type(self.dtype())) {
    check_view_origin(*view, "is being modified inplace");
    check(!requires_grad(view->base) || !is_leaf(view->base),
          "in-place operation on a view of a leaf; leaf Variable that requires grad: compute under "
          "no_grad()");
    check(holds_same_numbers(view->base.dtype(), self.dtype()),
          "in-place operation on a view with another dtype: expected ", view->base.dtype(),
          ", got ", self.dtype());
  }
  check(!requires_grad(self) || !is_leaf(self),
        "in-place operation on a leaf Variable that requires grad: compute under no_grad(), or "
        "on a "
        "copy");
}

void rebase_history(const Tensor& self, Node& node) {
  if (!is_differentiable_type(self.dtype())) return;
  const auto output_nr = static_cast<uint32_t>(node.num_outputs());
  node.add_output(self);
  if (ViewMeta* view = view_meta_of(self)) {
    auto slices = make_node<CopySlices>(view->base, self, intrusive_ptr<Node>::share(&node));
    AutogradMeta& base = make_meta(view->base);
    move_retained(view->base, base, *slices, 0);
    base.grad_fn = std::move(slices);
    base.output_nr = 0;
    mark_requires_grad(view->base);
    self.impl()->add_keys(DispatchKey::Autograd);
    // The view's own history follows the base's from here, also where one was made since the
    // change, from the base's former history.
    view->grad_version = self.impl()->version() - 1;
    (void)grad_fn(self);
    return;
  }
  AutogradMeta& meta = make_meta(self);
  move_retained(self, meta, node, output_nr);
  meta.grad_fn = intrusive_ptr<Node>::share(&node);
  meta.output_nr = output_nr;
  mark_requires_grad(self);
}

}  // namespace flambeau::autograd
