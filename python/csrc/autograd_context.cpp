// The context of a custom Function's call, the node that runs its backward, and the node that
// refuses to.
#include "aten/autograd/engine.h"
#include "aten/autograd/variable.h"
#include "aten/autograd/wrappers.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd_function.h"

namespace flambeau::python {

using autograd::Gradients;

// --- the node ------------------------------------------------------------------------------------

FunctionNode::FunctionNode(PyObject* context) : context_(Py_NewRef(context)) {
  set_runs_user_code();
}

void FunctionNode::drop_context() {
  PyObject* context = std::exchange(context_, nullptr);
  if (!context || !Py_IsInitialized()) return;
  const WithGil gil;
  Py_DECREF(context);
}

const char* FunctionNode::name() const {
  return context_ ? Py_TYPE(context_)->tp_name : "FunctionBackward";
}

void FunctionNode::release_saved() {
  const WithGil gil;
  ContextObject& ctx = context_object(context_);
  ctx.saved_are_released = ctx.saved_are_released || !ctx.saved.empty();
  ctx.saved.clear();
}

void FunctionNode::show_saved(autograd::SavedFields& fields) {
  fields.show("tensors", context_object(context_).saved);
}

namespace {

// Gradients of the tensor arguments, out of one value per argument of forward.
Gradients gradients_from(const FunctionNode& node, PyObject* values) {
  const ContextObject& ctx = context_object(node.context());
  const size_t expected = ctx.is_tensor_input.size();
  const auto given = static_cast<size_t>(PyTuple_GET_SIZE(values));
  bool fits = given >= expected;
  for (size_t i = expected; fits && i < given; ++i) {
    fits = PyTuple_GET_ITEM(values, static_cast<Py_ssize_t>(i)) == Py_None;
  }
  check(fits, node.name(), ": expected ", expected, " gradients from backward, got ", given);
  Gradients grads;
  for (size_t i = 0; i < expected; ++i) {
    PyObject* value = PyTuple_GET_ITEM(values, static_cast<Py_ssize_t>(i));
    if (!ctx.is_tensor_input[i]) {
      check(value == Py_None, node.name(), ": expected backward to return None at position ", i + 1,
            ", where forward got no tensor, got a gradient");
      continue;
    }
    check(value == Py_None || is_tensor(value), "function ", node.name(),
          " returned a gradient of an invalid type at position ", i + 1,
          ": expected Variable or None (got ", Py_TYPE(value)->tp_name, ")");
    grads.push_back(value == Py_None ? Tensor() : tensor_of(value));
  }
  return grads;
}

}  // namespace

Gradients FunctionNode::apply(Gradients&& grads) {
  const WithGil gil;
  const ContextObject& ctx = context_object(context_);
  const auto n = static_cast<Py_ssize_t>(grads.size());
  const Ref arguments = carried(PyTuple_New(n + 1));
  PyTuple_SET_ITEM(arguments.get(), 0, Py_NewRef(context_));
  for (Py_ssize_t i = 0; i < n; ++i) {
    const auto nr = static_cast<size_t>(i);
    const bool zero = ctx.materialize_grads && output(nr).dtype != ScalarType::Undefined;
    Tensor grad = zero ? autograd::grad_or_zeros(*this, grads, nr) : grads[nr];
    PyTuple_SET_ITEM(arguments.get(), i + 1, carried(wrap(std::move(grad))).release());
  }
  grads.clear();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(context_));
  const Ref function = carried(PyObject_GetAttrString(type, "_forward_cls"));
  const Ref backward = carried(PyObject_GetAttrString(function.get(), "backward"));
  Ref result = carried(PyObject_CallObject(backward.get(), arguments.get()));
  if (!PyTuple_Check(result.get())) result = carried(PyTuple_Pack(1, result.get()));
  return gradients_from(*this, result.get());
}

PyObject* context_of(autograd::Node& node) {
  if (!node.runs_user_code()) return nullptr;
  const auto* function = dynamic_cast<FunctionNode*>(&node);
  return function ? function->context() : nullptr;
}

// --- the context ---------------------------------------------------------------------------------

namespace {

PyObject* context_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  ContextObject& ctx = context_object(self);
  new (&ctx.base.node) intrusive_ptr<autograd::Node>();
  new (&ctx.base.owner) weak_intrusive_ptr<autograd::Node>();
  new (&ctx.saved) std::vector<autograd::SavedTensor>();
  new (&ctx.is_tensor_input) std::vector<bool>();
  ctx.materialize_grads = true;
  return self;
}

int context_traverse(PyObject* self, visitproc visit, void* arg) {
  const ContextObject& ctx = context_object(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* field : {ctx.needs_input_grad, ctx.to_save, ctx.saved_for_forward, ctx.dirty,
                          ctx.non_differentiable}) {
    Py_VISIT(field);
  }
  return 0;
}

int context_clear(PyObject* self) {
  ContextObject& ctx = context_object(self);
  Py_CLEAR(ctx.needs_input_grad);
  Py_CLEAR(ctx.to_save);
  Py_CLEAR(ctx.saved_for_forward);
  Py_CLEAR(ctx.dirty);
  Py_CLEAR(ctx.non_differentiable);
  return 0;
}

void context_dealloc(PyObject* self) {
  ContextObject& ctx = context_object(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  context_clear(self);
  ctx.saved.~vector();
  ctx.is_tensor_input.~vector();
  ctx.base.owner.~weak_intrusive_ptr();
  ctx.base.node.~intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* keep(PyObject** field, PyObject* args) {
  Py_XSETREF(*field, Py_NewRef(args));
  Py_RETURN_NONE;
}
PyObject* save_for_backward(PyObject* self, PyObject* args) {
  return keep(&context_object(self).to_save, args);
}
PyObject* save_for_forward(PyObject* self, PyObject* args) {
  return keep(&context_object(self).saved_for_forward, args);
}
PyObject* mark_dirty(PyObject* self, PyObject* args) {
  return keep(&context_object(self).dirty, args);
}
PyObject* mark_non_differentiable(PyObject* self, PyObject* args) {
  return keep(&context_object(self).non_differentiable, args);
}
PyObject* set_materialize_grads(PyObject* self, PyObject* value) {
  return guarded([&] {
    context_object(self).materialize_grads = checked(PyObject_IsTrue(value)) == 1;
    return wrap_none();
  });
}

PyObject* get_saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    ContextObject& ctx = context_object(self);
    if (ctx.saved_for_forward) return Py_NewRef(ctx.saved_for_forward);
    check(!ctx.saved_are_released,
          "backward: Trying to backward through the graph a second time: ", Py_TYPE(self)->tp_name,
          " has freed its saved tensors; pass retain_graph=True to the first pass");
    std::vector<Tensor> tensors;
    if (!ctx.saved.empty()) {
      const intrusive_ptr<autograd::Node> node = node_of(self);
      for (const autograd::SavedTensor& s : ctx.saved)
        tensors.push_back(s.unpack(*node, /*shown=*/true));
    }
    return wrap(tensors);
  });
}
// saved_tensors as a list; the context releases them unless the pass keeps the graph, so that a
// long backward can free each of them after its last use.
PyObject* take_saved(PyObject* self, PyObject*) {
  const Ref saved(get_saved_tensors(self, nullptr));
  if (!saved) return nullptr;
  if (!autograd::current_pass_keeps_graph()) {
    ContextObject& ctx = context_object(self);
    ctx.saved_are_released = ctx.saved_are_released || !ctx.saved.empty();
    ctx.saved.clear();
  }
  return PySequence_List(saved.get());
}
PyObject* get_needs_input_grad(PyObject* self, void*) {
  PyObject* tuple = context_object(self).needs_input_grad;
  return tuple ? Py_NewRef(tuple) : PyTuple_New(0);
}
PyObject* get_materialize_grads(PyObject* self, void*) {
  return wrap(context_object(self).materialize_grads);
}

PyMethodDef methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS,
     "Keep tensors for backward, which finds them in ctx.saved_tensors."},
    {"save_for_forward", save_for_forward, METH_VARARGS,
     "Keep tensors for jvp, which finds them in ctx.saved_tensors."},
    {"_take_saved", take_saved, METH_NOARGS, nullptr},
    {"mark_dirty", mark_dirty, METH_VARARGS, "Say which inputs forward has changed in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS,
     "Say which outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "Whether absent gradients reach backward as zeros (the default) or as None."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef getset[] = {
    {"saved_tensors", get_saved_tensors, nullptr, "What save_for_backward kept.", nullptr},
    {"saved_variables", get_saved_tensors, nullptr, "What save_for_backward kept.", nullptr},
    {"needs_input_grad", get_needs_input_grad, nullptr, "One bool per argument of forward.",
     nullptr},
    {"materialize_grads", get_materialize_grads, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- the node that refuses ----------------------------------------------------------------------

struct DelayedError final : autograd::Node {
  explicit DelayedError(std::string text) : message(std::move(text)) {}
  const char* name() const override { return "DelayedError"; }
  Gradients apply(Gradients&&) override { throw_error(ErrorKind::Runtime, message); }
  std::string message;
};

// _delayed_error(message, tensors): the same tensors, through which no gradient can pass.
PyObject* delayed_error(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* message;
    PyObject* sequence;
    if (!PyArg_ParseTuple(args, "sO", &message, &sequence)) return nullptr;
    std::vector<Tensor> tensors = tensors_from(sequence, "_delayed_error");
    const auto node = autograd::make_node<DelayedError>(message);
    for (Tensor& t : tensors) {
      if (!t.defined()) continue;
      node->add_next_edge(t);
      t = autograd::detach(t);
      autograd::set_history(t, node);
    }
    return wrap(tensors);
  });
}

PyMethodDef functions[] = {{"_apply_function", apply_function, METH_VARARGS, nullptr},
                           {"_delayed_error", delayed_error, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

const char context_doc[] =
    R"(Node of a custom `Function`, which its forward and backward receive as `ctx`.

``save_for_backward`` stores tensors that ``saved_tensors`` returns in backward; other attributes store
anything else. ``needs_input_grad`` tells for each argument of forward whether backward must return its
gradient.

Example:
    >>> class Scale(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         print(ctx.needs_input_grad)
    ...         return grad * ctx.factor, None
    >>> Scale.apply(flambeau.ones(1, requires_grad=True), 2.0).backward()
    (True, False)
)";

void add_custom_function(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(context_doc)},
                         {Py_tp_new, reinterpret_cast<void*>(context_new)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getset},
                         {0, nullptr}};
  PyType_Spec spec = {"flambeau.autograd.function.FunctionCtx", sizeof(ContextObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  const Ref bases = Ref::checked(PyTuple_Pack(1, node_type));
  const Ref type = Ref::checked(PyType_FromSpecWithBases(&spec, bases.get()));
  checked(PyModule_AddObjectRef(module, "FunctionCtx", type.get()));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
