#include "api/function.h"

#include <cxxabi.h>

#include "aten/autograd/wrappers.h"

namespace flambeau::api {
namespace {

std::string name_of_type(const std::type_info& type) {
  int status = 0;
  char* const text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : type.name();
  std::free(text);
  return "torch::autograd::CppNode<" + name + ">";
}

bool holds(const variable_list& list, const flambeau::Tensor& t) {
  for (const Tensor& item : list) {
    if (item.is_same(t)) return true;
  }
  return false;
}

Tensor alias_without_grad(const Tensor& t) {
  const NoGradGuard no_grad;
  Tensor alias = ops::alias::call(t);
  if (autograd::ViewMeta* view = autograd::view_meta_of(alias))
    view->origin = autograd::ViewOrigin::CustomFunction;
  return alias;
}

}  // namespace

variable_list AutogradContext::get_saved_variables() const {
  variable_list found;
  check(node_ != nullptr,
        "get_saved_variables: expected the context of a Function's call, got a context "
        "without one");
  for (const autograd::SavedTensor& saved : node_->saved_)
    found.emplace_back(saved.is_none() ? flambeau::Tensor() : saved.unpack(*node_, true));
  return found;
}

bool AutogradContext::needs_input_grad(size_t i) const {
  check_index(node_ && i < node_->edge_of_argument_.size(),
              "needs_input_grad: expected an argument of forward, got ", i);
  const int edge = node_->edge_of_argument_[i];
  return edge >= 0 && node_->should_compute(static_cast<size_t>(edge));
}

FunctionNode::FunctionNode(const std::type_info& function, FunctionBackward backward)
    : name_(name_of_type(function)), backward_(backward) {
  context_.node_ = this;
  set_runs_user_code();
}

void FunctionNode::add_tensor(const flambeau::Tensor& tensor) {
  edge_of_argument_.push_back(static_cast<int>(num_edges()));
  records_ |= thread_state.grad_enabled && autograd::requires_grad(tensor);
  if (tensor.defined()) {
    add_next_edge(tensor);
  } else {
    add_edge({});
  }
  inputs_.emplace_back(tensor);
}

void FunctionNode::finish(variable_list& outputs) {
  for (const Tensor& t : context_.dirty_) {
    t.impl()->bump_version();
    check(!records_ || !holds(inputs_, t) || holds(outputs, t), name(),
          ": expected forward to return the tensors that it marked as dirty, got outputs without "
          "one of them");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto nr = static_cast<uint32_t>(i);
    if (outputs[i].defined()) finish_output(outputs[i], nr);
    while (records_ && num_outputs() <= nr) add_undefined_output();
    if (records_ && outputs[i].defined()) set_output(nr, outputs[i]);
  }
  if (records_) save();
  context_.to_save_.clear();
  context_.dirty_.clear();
  context_.non_differentiable_.clear();
  inputs_.clear();
}

void FunctionNode::finish_output(Tensor& output, uint32_t nr) {
  const bool is_input = holds(inputs_, output), is_dirty = holds(context_.dirty_, output);
  const bool differentiable = !holds(context_.non_differentiable_, output) &&
                              c10::is_differentiable_type(output.scalar_type());
  if (!records_ || !differentiable) {
    if (is_dirty) return;
    if (output.requires_grad()) {
      output = autograd::detach(output);
    } else if (is_input) {
      output = alias_without_grad(output);
    }
    return;
  }
  if (is_input && is_dirty) {
    autograd::check_inplace_grad(output, true);
    check(nr == num_outputs(), name(),
          ": expected outputs marked as dirty before other outputs, got one after them");
    autograd::rebase_history(output, *this);
    return;
  }
  if (is_input) output = alias_without_grad(output);
  if (autograd::ViewMeta* view = autograd::view_meta_of(output))
    view->origin = autograd::ViewOrigin::CustomFunction;
  autograd::set_history(output, *this, nr);
}

void FunctionNode::save() {
  for (const Tensor& t : context_.to_save_) {
    if (!t.defined()) {
      saved_.emplace_back();
      continue;
    }
    const bool is_output = autograd::requires_grad(t) && t.grad_fn().get() == this;
    const bool is_changed_view = is_output && autograd::is_view(t) && holds(context_.dirty_, t);
    saved_.emplace_back(t, is_output, is_changed_view);
  }
}

void FunctionNode::release_saved() {
  for (autograd::SavedTensor& saved : saved_) saved.reset();
}

autograd::Gradients FunctionNode::apply(autograd::Gradients&& grads) {
  variable_list given;
  for (size_t i = 0; i < num_outputs(); ++i) {
    const bool is_filled = context_.materialize_grads_ || (i < grads.size() && grads[i].defined());
    given.emplace_back(is_filled ? autograd::grad_or_zeros(*this, grads, i) : flambeau::Tensor());
  }
  return gradients_of(backward_(&context_, std::move(given)));
}

autograd::Gradients FunctionNode::gradients_of(const variable_list& given) const {
  size_t count = given.size();
  while (count > edge_of_argument_.size() && !given[count - 1].defined()) --count;
  check(count == edge_of_argument_.size(), "function ", name(),
        " returned an incorrect number of gradients (expected ", edge_of_argument_.size(), ", got ",
        given.size(), ")");
  autograd::Gradients out(num_edges());
  for (size_t i = 0; i < count; ++i) {
    const int edge = edge_of_argument_[i];
    if (edge >= 0) {
      out[static_cast<size_t>(edge)] = given[i];
    } else {
      check(!given[i].defined(), "function ", name(), ": expected no gradient at position ", i + 1,
            ", where forward took no tensor, got one (different from None)");
    }
  }
  return out;
}

variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs, std::optional<bool> retain_graph,
                   bool create_graph, bool allow_unused) {
  const autograd::BackwardOptions options{.retain_graph = retain_graph.value_or(create_graph),
                                          .create_graph = create_graph,
                                          .allow_unused = allow_unused};
  variable_list grads = grad_outputs;
  grads.resize(outputs.size());
  return lifted(
      autograd::grad(TensorArgs(outputs), TensorArgs(grads), TensorArgs(inputs), options));
}

void backward(const variable_list& tensors, const variable_list& grad_tensors,
              std::optional<bool> retain_graph, bool create_graph, const variable_list& inputs) {
  const autograd::BackwardOptions options{.retain_graph = retain_graph.value_or(create_graph),
                                          .create_graph = create_graph};
  variable_list grads = grad_tensors;
  grads.resize(tensors.size());
  autograd::backward(TensorArgs(tensors), TensorArgs(grads), TensorArgs(inputs), options);
}

}  // namespace flambeau::api
