#include "api/autograd_fallback.h"

#include <algorithm>

#include "api/guards.h"
#include "aten/autograd/autograd_meta.h"
#include "aten/autograd/wrappers.h"
#include "aten/core/view.h"
#include "aten/dispatch/operator_traits.h"

namespace flambeau::api::of_autograd {
namespace {

namespace engine = flambeau::autograd;
using engine::Gradients;

// The backward function of an operator that has none.
struct NotImplemented final : engine::Node {
  explicit NotImplemented(const OperatorEntry& op) : op(op) {}
  const char* name() const override { return "NotImplemented"; }
  Gradients apply(Gradients&&) override {
    fail(ErrorKind::Runtime, "derivative for ", op.name, " is not implemented");
  }
  const OperatorEntry& op;
};
void warn_not_implemented(const OperatorEntry& op) {
  warn_of(c10::text_of(op.name,
                       ": an autograd kernel was not registered to the Autograd key(s), but ",
                       "a backward pass goes through it. Its arguments get no gradients; register ",
                       "a kernel with a derivative, or a fallthrough."));
}
struct WarnNotImplemented final : engine::Node {
  explicit WarnNotImplemented(const OperatorEntry& op) : op(op) {}
  const char* name() const override { return "WarnNotImplemented"; }
  Gradients apply(Gradients&&) override {
    warn_not_implemented(op);
    return Gradients(num_edges());
  }
  const OperatorEntry& op;
};

// Of an argument that the operator wrote to: its gradient passes as if nothing had been written.
struct WarnOfWrite final : engine::TensorHook {
  explicit WarnOfWrite(const OperatorEntry& op) : op(op) {}
  flambeau::Tensor call(const flambeau::Tensor&) override {
    warn_not_implemented(op);
    return {};
  }
  const OperatorEntry& op;
};

bool holds(const std::vector<flambeau::Tensor>& list, const flambeau::Tensor& t) {
  return std::ranges::any_of(list, [&](const auto& item) { return item.is_same(t); });
}

// The tensors of a call, and what it writes to.
struct Call {
  Call(const OperatorEntry& op, const Stack& stack) : op(op) {
    for (size_t i = 0; i < stack.size(); ++i) {
      visit(stack[i], [&](const flambeau::Tensor& t) {
        inputs.push_back(t);
        if (!op.traits->arguments[i].is_mutable) return;
        written.push_back(t);
        versions.push_back(t.impl()->version());
      });
    }
  }
  template <typename F>
  static void visit(const flambeau::IValue& value, F f) {
    if (value.is_tensor() && value.tensor().defined()) f(value.tensor());
    if (const auto* list = std::get_if<std::vector<flambeau::Tensor>>(&value.payload())) {
      for (const flambeau::Tensor& t : *list) {
        if (t.defined()) f(t);
      }
    }
  }

  bool is_recorded() const {
    return thread_state.grad_enabled &&
           std::ranges::any_of(inputs, [](const auto& t) { return engine::requires_grad(t); });
  }
  // Below Autograd. A kernel that wrote without an operator has changed no version.
  void run(c10::DispatchKeySet keys, Stack& stack) const {
    {
      const c10::ExcludeKeys below(engine::kAutogradKey);
      redispatch_boxed(op, keys.below(c10::DispatchKey::Autograd), stack);
    }
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i].impl()->version() == versions[i]) written[i].impl()->bump_version();
    }
    for (size_t i = 0; i < stack.size() && i < op.traits->results.size(); ++i) {
      const ResultTraits& result = op.traits->results[i];
      if (result.alias < 0 || result.is_self) continue;
      visit(stack[i], [&](const flambeau::Tensor& t) { note(t); });
    }
  }

  const OperatorEntry& op;
  std::vector<flambeau::Tensor> inputs, written;
  std::vector<uint32_t> versions;

 private:
  void note(const flambeau::Tensor& result) const {
    for (const flambeau::Tensor& t : inputs) {
      const bool shares = !result.is_same(t) && !engine::is_view(result) &&
                          result.impl()->storage().get() == t.impl()->storage().get();
      if (shares) return note_view(t, result, false);
    }
  }
};

// An argument that is returned, though the schema does not say so, keeps its own history.
flambeau::Tensor distinct(const Call& call, const flambeau::Tensor& result) {
  if (!holds(call.inputs, result)) return result;
  const NoGradGuard no_grad;
  return ops::alias::call(result);
}

void record_results(const Call& call, Stack& stack, engine::Node& node) {
  const auto record = [&](flambeau::Tensor& t) {
    if (!t.defined() || holds(call.written, t)) return;
    t = distinct(call, t);
    if (c10::is_differentiable_type(t.dtype())) engine::set_history(t, node);
  };
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) record(stack[i].get<flambeau::Tensor>());
    if (!std::holds_alternative<std::vector<flambeau::Tensor>>(stack[i].payload())) continue;
    for (flambeau::Tensor& t : stack[i].get<std::vector<flambeau::Tensor>>()) record(t);
  }
}

template <typename Node>
intrusive_ptr<Node> node_of(const Call& call) {
  if (!call.is_recorded()) return {};
  auto node = engine::make_node<Node>(call.op);
  for (const flambeau::Tensor& t : call.inputs) node->add_next_edge(t);
  return node;
}

void check_no_tangents(const Call& call) {
  for (const flambeau::Tensor& t : call.inputs) {
    if (engine::has_forward_grad(t))
      fail(
          ErrorKind::NotImplemented, "Trying to use forward AD with ", call.op.name,
          " that does not support it: expected arguments without tangents, got one with a tangent");
  }
}

void run_not_implemented(const OperatorEntry& op, c10::DispatchKeySet keys, Stack& stack) {
  const Call call(op, stack);
  check_no_tangents(call);
  for (const flambeau::Tensor& t : call.written) engine::check_inplace_grad(t, call.is_recorded());
  const auto node = node_of<NotImplemented>(call);
  call.run(keys, stack);
  if (!node) return;
  for (const flambeau::Tensor& t : call.written) engine::rebase_history(t, *node);
  record_results(call, stack, *node);
}

void run_basic(const OperatorEntry& op, c10::DispatchKeySet keys, Stack& stack) {
  const Call call(op, stack);
  const auto node = node_of<WarnNotImplemented>(call);
  call.run(keys, stack);
  if (!node) return;
  record_results(call, stack, *node);
  for (const flambeau::Tensor& t : call.written) {
    if (engine::requires_grad(t)) engine::add_tensor_hook(t, make_intrusive<WarnOfWrite>(op));
  }
}

}  // namespace

CppFunction autogradNotImplementedFallback() {
  return CppFunction::of_operator(run_not_implemented);
}
CppFunction autogradNotImplementedInplaceOrViewFallback() {
  return CppFunction::of_operator([](const OperatorEntry& op, c10::DispatchKeySet keys,
                                     Stack& stack) { Call(op, stack).run(keys, stack); });
}
CppFunction basicAutogradNotImplementedFallback() { return CppFunction::of_operator(run_basic); }

}  // namespace flambeau::api::of_autograd
