// The call of a custom Function: forward without recording, then history for what it returned.
#include "python/csrc/autograd_function.h"

#include "aten/autograd/engine.h"
#include "aten/autograd/variable.h"
#include "aten/autograd/wrappers.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/native_stack.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::python {
namespace {

using autograd::Gradients;

// What one call keeps between its steps.
struct FunctionCall {
  PyObject* function;  // the class
  PyObject* arguments;
  Ref context;
  intrusive_ptr<FunctionNode> node;  // null: nothing is recorded
  std::vector<Tensor> tangents;      // one per argument, when any has one

  ContextObject& ctx() const { return context_object(context.get()); }
};

bool holds(PyObject* tuple, PyObject* item) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (PyTuple_GET_ITEM(tuple, i) == item) return true;
  }
  return false;
}

void start(FunctionCall& call) {
  check_native_stack();
  const Ref type = Ref::checked(PyObject_GetAttrString(call.function, "_backward_cls"));
  call.context = Ref::checked(PyObject_CallNoArgs(type.get()));
  ContextObject& ctx = call.ctx();
  const Py_ssize_t n = PyTuple_GET_SIZE(call.arguments);
  ctx.needs_input_grad = Ref::checked(PyTuple_New(n)).release();
  bool any = false, any_tangent = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(call.arguments, i);
    const bool tensor = is_tensor(item);
    const bool needed = tensor && autograd::requires_grad(tensor_of(item));
    any |= needed;
    any_tangent |= tensor && autograd::has_forward_grad(tensor_of(item));
    ctx.is_tensor_input.push_back(tensor);
    PyTuple_SET_ITEM(ctx.needs_input_grad, i, wrap(needed));
  }
  for (Py_ssize_t i = 0; any_tangent && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(call.arguments, i);
    call.tangents.push_back(is_tensor(item) ? autograd::forward_grad(tensor_of(item)) : Tensor());
  }
  if (!any || !thread_state.grad_enabled) return;
  call.node = autograd::make_node<FunctionNode>(call.context.get());
  ctx.base.owner = weak_intrusive_ptr<autograd::Node>(call.node);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(call.arguments, i);
    if (is_tensor(item)) call.node->add_next_edge(tensor_of(item));
  }
}

Ref with_context_first(PyObject* context, PyObject* arguments) {
  const Py_ssize_t n = PyTuple_GET_SIZE(arguments);
  Ref all = Ref::checked(PyTuple_New(n + 1));
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(context));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(arguments, i)));
  }
  return all;
}

struct NoForwardGrad {
  bool previous = std::exchange(thread_state.forward_grad_enabled, false);
  ~NoForwardGrad() { thread_state.forward_grad_enabled = previous; }
};

Ref call_forward(const FunctionCall& call) {
  const GradModeGuard no_grad(false);
  const NoForwardGrad no_forward_grad;
  const Ref forward = Ref::checked(PyObject_GetAttrString(call.function, "forward"));
  const Ref separate = Ref::checked(PyObject_GetAttrString(call.function, "_sets_up_context"));
  if (separate.get() != Py_True) {
    const Ref all = with_context_first(call.context.get(), call.arguments);
    return Ref::checked(PyObject_CallObject(forward.get(), all.get()));
  }
  Ref output = Ref::checked(PyObject_CallObject(forward.get(), call.arguments));
  const Ref setup = Ref::checked(PyObject_GetAttrString(call.function, "setup_context"));
  Ref::checked(PyObject_CallFunctionObjArgs(setup.get(), call.context.get(), call.arguments,
                                            output.get(), nullptr));
  return output;
}

// --- outputs -------------------------------------------------------------------------------------

Tensor alias_without_grad(const Tensor& t) {
  // In a transform's layer the call leaves no trace, outside the layer it is recorded as usual.
  const bool in_layer = t.impl()->wrapper();
  const GradModeGuard no_grad(in_layer && thread_state.grad_enabled);
  const ExcludeKeys untracked(in_layer ? DispatchKeySet(DispatchKey::Autograd) : DispatchKeySet());
  Tensor alias = ops::alias::call(t);
  if (autograd::ViewMeta* view = autograd::view_meta_of(alias)) {
    view->origin = autograd::ViewOrigin::CustomFunction;
  }
  return alias;
}

// The output `i` of `outputs` tensors, with its place in the graph.
Ref finish_output(const FunctionCall& call, PyObject* output, uint32_t i, int64_t outputs) {
  const Tensor& t = tensor_of(output);
  const ContextObject& ctx = call.ctx();
  const bool is_input = holds(call.arguments, output);
  const bool is_dirty = holds(ctx.dirty, output);
  const bool records =
      call.node && !holds(ctx.non_differentiable, output) && is_differentiable_type(t.dtype());
  if (!records) {
    if (is_dirty) return Ref::share(output);
    if (is_input) {
      return Ref::checked(
          wrap(autograd::requires_grad(t) ? autograd::detach(t) : alias_without_grad(t)));
    }
    return autograd::requires_grad(t) ? Ref::checked(wrap(autograd::detach(t)))
                                      : Ref::share(output);
  }
  if (is_input && is_dirty) {
    autograd::check_inplace_grad(t, true);
    check(outputs == 1 || !autograd::is_view(t), call.node->name(),
          ": expected one output of a Function that changes a view in place, got ", outputs,
          "; return a clone() of the view together with other Tensors");
    check(i == call.node->num_outputs(), call.node->name(),
          ": expected outputs marked as dirty before other outputs, got one after them");
    autograd::rebase_history(t, call.node);
    return Ref::share(output);
  }
  Ref result = is_input ? Ref::checked(wrap(alias_without_grad(t))) : Ref::share(output);
  const Tensor& made = tensor_of(result.get());
  if (autograd::ViewMeta* view = autograd::view_meta_of(made)) {
    view->origin = autograd::ViewOrigin::CustomFunction;
  }
  autograd::set_history(made, call.node, i);
  return result;
}

// Forward may have changed memory by other means than operators, which count by themselves.
void count_changes(const ContextObject& ctx, PyObject* arguments) {
  if (!ctx.dirty) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ctx.dirty); ++i) {
    PyObject* item = PyTuple_GET_ITEM(ctx.dirty, i);
    check_type(is_tensor(item), "mark_dirty: expected tensors, got ", Py_TYPE(item)->tp_name,
               " as argument ", i);
    tensor_of(item).impl()->bump_version();
    if (holds(arguments, item)) continue;
    checked(PyErr_WarnEx(PyExc_UserWarning,
                         "mark_dirty: expected tensors that forward took as arguments and changed, "
                         "got another one",
                         1));
  }
}

// What forward changed in place would keep the history of its old value.
void check_dirty_are_outputs(const FunctionCall& call, PyObject* outputs) {
  PyObject* dirty = call.ctx().dirty;
  for (Py_ssize_t i = 0; dirty && call.node && i < PyTuple_GET_SIZE(dirty); ++i) {
    PyObject* item = PyTuple_GET_ITEM(dirty, i);
    check(!holds(call.arguments, item) || holds(outputs, item), call.node->name(),
          ": expected forward to return the tensors that it marked as dirty, got outputs without "
          "one of them");
  }
}

Ref finish_outputs(const FunctionCall& call, PyObject* outputs) {
  count_changes(call.ctx(), call.arguments);
  check_dirty_are_outputs(call, outputs);
  const Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  Ref results = Ref::checked(PyTuple_New(n));
  int64_t tensors = 0;
  for (Py_ssize_t i = 0; i < n; ++i) tensors += is_tensor(PyTuple_GET_ITEM(outputs, i));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(outputs, i);
    const auto nr = static_cast<uint32_t>(i);
    Ref result = is_tensor(item) ? finish_output(call, item, nr, tensors) : Ref::share(item);
    PyTuple_SET_ITEM(results.get(), i, result.release());
    while (call.node && call.node->num_outputs() <= nr) call.node->add_undefined_output();
    // Backward may ask for zeros in the place of any output.
    if (call.node && is_tensor(item)) call.node->set_output(nr, tensor_of(item));
  }
  return results;
}

void save_tensors(const FunctionCall& call) {
  ContextObject& ctx = call.ctx();
  const Ref to_save(std::exchange(ctx.to_save, nullptr));
  if (!to_save || !call.node) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(to_save.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(to_save.get(), i);
    check_type(item == Py_None || is_tensor(item),
               "save_for_backward: expected tensors or None, got ", Py_TYPE(item)->tp_name,
               " as argument ", i);
    if (item == Py_None) {
      ctx.saved.emplace_back();
      continue;
    }
    const Tensor& t = tensor_of(item);
    const autograd::AutogradMeta* meta = autograd::meta_of(t);
    const bool is_output = meta && autograd::requires_grad(t) &&
                           (meta->grad_fn.get() == call.node.get() || holds(ctx.dirty, item));
    ctx.saved.emplace_back(t, is_output, is_output && meta->is_view && holds(ctx.dirty, item));
  }
}

// --- forward mode --------------------------------------------------------------------------------

void carry_tangents(const FunctionCall& call, PyObject* results) {
  if (call.tangents.empty()) return;
  const ContextObject& ctx = call.ctx();
  const auto n = static_cast<Py_ssize_t>(call.tangents.size());
  const Ref tangents = Ref::checked(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Tensor& given = call.tangents[static_cast<size_t>(i)];
    const bool zero =
        !given.defined() && ctx.materialize_grads && ctx.is_tensor_input[static_cast<size_t>(i)];
    PyObject* item = PyTuple_GET_ITEM(call.arguments, i);
    PyTuple_SET_ITEM(
        tangents.get(), i,
        Ref::checked(wrap(zero ? autograd::forward_grad_or_zeros(tensor_of(item)) : given))
            .release());
  }
  const Ref jvp = Ref::checked(PyObject_GetAttrString(call.function, "jvp"));
  const Ref all = with_context_first(call.context.get(), tangents.get());
  Ref outputs = Ref::checked(PyObject_CallObject(jvp.get(), all.get()));
  if (!PyTuple_Check(outputs.get())) outputs = Ref::checked(PyTuple_Pack(1, outputs.get()));
  check(PyTuple_GET_SIZE(outputs.get()) == PyTuple_GET_SIZE(results), "jvp: expected ",
        PyTuple_GET_SIZE(results), " tangents, got ", PyTuple_GET_SIZE(outputs.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i) {
    PyObject* result = PyTuple_GET_ITEM(results, i);
    PyObject* tangent = PyTuple_GET_ITEM(outputs.get(), i);
    if (tangent == Py_None || !is_tensor(result)) continue;
    check_type(is_tensor(tangent), "jvp: expected Tensors or None to be returned, got ",
               Py_TYPE(tangent)->tp_name);
    check(tensor_of(tangent).sizes() == tensor_of(result).sizes(),
          "jvp: expected a tangent of shape ", tensor_of(result).sizes(), ", got ",
          tensor_of(tangent).sizes());
    autograd::set_forward_grad(tensor_of(result), tensor_of(tangent));
  }
}

// The outputs with their places in the graph.
Ref record(const FunctionCall& call, Ref outputs) {
  const bool single = !PyTuple_Check(outputs.get());
  if (single) outputs = Ref::checked(PyTuple_Pack(1, outputs.get()));
  Ref results = finish_outputs(call, outputs.get());
  // Outputs are saved with their tangents, unless jvp itself asks for what is saved.
  const bool jvp_first = call.ctx().saved_for_forward != nullptr;
  if (!jvp_first) save_tensors(call);
  carry_tangents(call, results.get());
  if (jvp_first) save_tensors(call);
  Py_CLEAR(call.ctx().dirty);
  Py_CLEAR(call.ctx().non_differentiable);
  return single ? Ref::share(PyTuple_GET_ITEM(results.get(), 0)) : std::move(results);
}

void call_setup(const FunctionCall& call, PyObject* setup, PyObject* output) {
  static PyObject* const names = Py_BuildValue("(sss)", "ctx", "inputs", "output");
  PyObject* const values[] = {call.context.get(), call.arguments, output};
  Ref::checked(PyObject_Vectorcall(setup, values, 0, names));
}

}  // namespace

Ref apply_recorder(PyObject* function, PyObject* arguments, PyObject* setup,
                   const std::function<Ref()>& forward) {
  FunctionCall call = {function, arguments, {}, {}, {}};
  start(call);
  Ref outputs;
  {
    const GradModeGuard no_grad(false);
    const NoForwardGrad no_forward_grad;
    outputs = forward();
    if (setup) call_setup(call, setup, outputs.get());
  }
  return record(call, std::move(outputs));
}

PyObject* apply_function(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    FunctionCall call;
    if (!PyArg_ParseTuple(args, "OO!", &call.function, &PyTuple_Type, &call.arguments))
      return nullptr;
    start(call);
    return record(call, call_forward(call)).release();
  });
}

}  // namespace flambeau::python
