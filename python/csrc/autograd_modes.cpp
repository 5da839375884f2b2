// Functions of the module: backward passes over several tensors, grad mode, anomaly mode, forward
// mode.
#include "aten/autograd/anomaly.h"
#include "aten/autograd/engine.h"
#include "aten/autograd/variable.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/transforms.h"

namespace flambeau::python {
namespace {

using autograd::BackwardOptions;

// --- passes --------------------------------------------------------------------------------------

// _autograd_backward(tensors, gradients, inputs, retain_graph, create_graph)
PyObject* backward(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensors, *gradients, *inputs;
    int retain_graph, create_graph;
    refuse_backward_in_transforms();
    if (!PyArg_ParseTuple(args, "OOOpp", &tensors, &gradients, &inputs, &retain_graph,
                          &create_graph))
      return nullptr;
    const std::vector<Tensor> outputs = tensors_from(tensors, "backward");
    const std::vector<Tensor> grads = tensors_from(gradients, "backward");
    const std::vector<Tensor> wanted = tensors_from(inputs, "backward");
    BackwardOptions options;
    options.retain_graph = retain_graph;
    options.create_graph = create_graph;
    {
      const WithoutGil released;
      autograd::backward(outputs, grads, wanted, options);
    }
    Py_RETURN_NONE;
  });
}

// _autograd_grad(tensors, gradients, inputs, retain_graph, create_graph, allow_unused, materialize)
PyObject* grad(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensors, *gradients, *inputs;
    int retain_graph, create_graph, allow_unused, materialize;
    if (!PyArg_ParseTuple(args, "OOOpppp", &tensors, &gradients, &inputs, &retain_graph,
                          &create_graph, &allow_unused, &materialize))
      return nullptr;
    const std::vector<Tensor> outputs = tensors_from(tensors, "grad");
    const std::vector<Tensor> grads = tensors_from(gradients, "grad");
    const std::vector<Tensor> wanted = tensors_from(inputs, "grad");
    BackwardOptions options;
    options.retain_graph = retain_graph;
    options.create_graph = create_graph;
    options.allow_unused = allow_unused;
    options.materialize_grads = materialize;
    std::vector<Tensor> result;
    {
      const WithoutGil released;
      result = autograd::grad(outputs, grads, wanted, options);
    }
    return wrap(result);
  });
}

std::vector<autograd::Edge> edges_from(PyObject* pairs) {
  std::vector<autograd::Edge> edges;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); ++i) {
    PyObject* node;
    unsigned int output_nr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, i), "O!I", node_type, &node, &output_nr))
      throw PythonError();
    edges.push_back({node_of(node), output_nr});
    check_index(output_nr < edges.back().function->num_outputs(),
                "GradientEdge: expected an output_nr below ", edges.back().function->num_outputs(),
                " for node ", edges.back().function->name(), ", got ", output_nr);
  }
  return edges;
}

// _autograd_edges(roots, gradients, captures, retain_graph, create_graph, accumulate, whole=-1):
// grad, or with `accumulate` backward, by places in the graph, which are pairs (node, output_nr).
// whole >= 0: the pass stops at captures, and only the first `whole` ones are complete gradients.
PyObject* grad_of_edges(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *roots, *gradients, *captures;
    int retain_graph, create_graph, accumulate, whole = -1;
    if (!PyArg_ParseTuple(args, "O!OO!ppp|i", &PyTuple_Type, &roots, &gradients, &PyTuple_Type,
                          &captures, &retain_graph, &create_graph, &accumulate, &whole))
      return nullptr;
    const std::vector<autograd::Edge> from = edges_from(roots), to = edges_from(captures);
    autograd::Gradients grads;
    for (Tensor& t : tensors_from(gradients, "grad")) grads.push_back(std::move(t));
    BackwardOptions options;
    options.retain_graph = retain_graph;
    options.create_graph = create_graph;
    options.stops_at_captures = whole >= 0;
    if (whole >= 0) options.first_incomplete = static_cast<uint32_t>(whole);
    autograd::Gradients result;
    {
      const WithoutGil released;
      result = autograd::run_backward(from, std::move(grads), to, accumulate, options);
    }
    return wrap(std::vector<Tensor>(result.begin(), result.end()));
  });
}

PyObject* current_pass(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(autograd::current_pass());
}
PyObject* outermost_pass(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(autograd::outermost_pass());
}
PyObject* pass_reaches(PyObject*, PyObject* node) {
  return guarded([&] {
    check_type(PyObject_TypeCheck(node, node_type), "_pass_reaches: expected a Node, got ",
               Py_TYPE(node)->tp_name);
    return wrap(autograd::current_pass_reaches(*node_of(node)));
  });
}

PyObject* pass_is_filtered(PyObject*, PyObject*) {
  return wrap(autograd::current_pass_is_filtered());
}

// _at_end_of_pass(function): calls it when the outermost pass of this thread has ended.
PyObject* at_end_of_pass(PyObject*, PyObject* function) {
  return guarded([&] {
    check_type(PyCallable_Check(function), "queue_callback: expected a callable, got ",
               Py_TYPE(function)->tp_name);
    autograd::add_pass_hook(make_pass_hook(function));
    return wrap_none();
  });
}

// _run_accumulate_hooks(tensor): the hooks that backward runs after it has updated .grad.
PyObject* run_accumulate_hooks(PyObject*, PyObject* o) {
  return guarded([&] {
    check_type(is_tensor(o), "_run_accumulate_hooks: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    const autograd::AutogradMeta* meta = autograd::meta_of(tensor_of(o));
    if (meta && meta->extras) {
      const WithoutGil released;
      const autograd::UserCodeScope scope;
      for (const auto& entry : meta->extras->accumulate_hooks.entries())
        entry.hook->call(tensor_of(o));
    }
    return wrap_none();
  });
}

// _increment_version(tensor): as if an operation had changed its memory.
PyObject* increment_version(PyObject*, PyObject* o) {
  return guarded([&] {
    check_type(is_tensor(o), "increment_version: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    TensorImpl& impl = *tensor_of(o).impl();
    check(!impl.is_inference() || thread_state.inference_mode,
          "increment_version: Inplace update to inference tensor: expected inference mode, got "
          "normal mode; change a clone() instead");
    if (!impl.is_inference()) impl.bump_version();
    return wrap_none();
  });
}

// --- modes ---------------------------------------------------------------------------------------

int flag_from(PyObject* o, const char* what) {
  check_type(PyBool_Check(o), what, ": expected a bool, got ", Py_TYPE(o)->tp_name);
  return o == Py_True;
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return wrap(thread_state.grad_enabled); }
PyObject* set_grad_enabled(PyObject*, PyObject* o) {
  return guarded([&] {
    thread_state.grad_enabled = flag_from(o, "set_grad_enabled");
    return wrap_none();
  });
}
PyObject* is_inference_mode(PyObject*, PyObject*) { return wrap(thread_state.inference_mode); }

// Without recording and versions to check, operations need no wrapper.
void set_inference_mode(bool on) {
  const uint64_t wrappers = DispatchKeySet(DispatchKey::Autograd).bits();
  if (on) {
    thread_state.excluded |= wrappers;
  } else if (thread_state.inference_mode) {
    thread_state.excluded &= ~wrappers;
  }
  thread_state.inference_mode = on;
}

// Modes in one number, for a context manager to put back: bit 0 grad, 1 inference, 2 forward grad.
PyObject* get_modes(PyObject*, PyObject*) {
  return wrap(static_cast<int64_t>(thread_state.grad_enabled | thread_state.inference_mode << 1 |
                                   thread_state.forward_grad_enabled << 2));
}
PyObject* set_modes(PyObject*, PyObject* o) {
  return guarded([&] {
    const int64_t bits = integer_from(o);
    thread_state.grad_enabled = bits & 1;
    set_inference_mode(bits >> 1 & 1);
    thread_state.forward_grad_enabled = bits >> 2 & 1;
    return wrap_none();
  });
}
PyObject* is_forward_grad_enabled(PyObject*, PyObject*) {
  return wrap(thread_state.forward_grad_enabled);
}

// --- anomaly mode --------------------------------------------------------------------------------

std::string python_stack() {
  const WithGil gil;
  std::string text;
  const Ref module(PyImport_ImportModule("traceback"));
  const Ref lines(module ? PyObject_CallMethod(module.get(), "format_stack", nullptr) : nullptr);
  const Ref empty(PyUnicode_FromString(""));
  const Ref joined(lines && empty ? PyUnicode_Join(empty.get(), lines.get()) : nullptr);
  if (joined) text = PyUnicode_AsUTF8(joined.get());
  if (PyErr_Occurred()) PyErr_WriteUnraisable(nullptr);
  return text;
}

void warn(const std::string& message) {
  const WithGil gil;
  // The failure that is being explained goes first: a warning made an error is only shown.
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) PyErr_WriteUnraisable(nullptr);
}

PyObject* set_anomaly(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int enabled, check_nan = 1;
    if (!PyArg_ParseTuple(args, "p|p", &enabled, &check_nan)) return nullptr;
    autograd::set_anomaly_mode(enabled, check_nan);
    Py_RETURN_NONE;
  });
}
PyObject* is_anomaly(PyObject*, PyObject*) { return wrap(autograd::anomaly_mode()); }
PyObject* is_anomaly_nan(PyObject*, PyObject*) { return wrap(autograd::anomaly_checks_nan()); }

// --- forward mode --------------------------------------------------------------------------------

PyObject* enter_level(PyObject*, PyObject*) {
  return guarded([&] { return wrap(static_cast<int64_t>(autograd::enter_forward_level())); });
}
PyObject* exit_level(PyObject*, PyObject* level) {
  return guarded([&] {
    autograd::exit_forward_level(static_cast<int>(integer_from(level)));
    return wrap_none();
  });
}
const Tensor& tensor_argument(PyObject* o, const char* what) {
  check_type(is_tensor(o), what, ": expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return tensor_of(o);
}
PyObject* make_dual(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *primal, *tangent;
    if (!PyArg_ParseTuple(args, "OO", &primal, &tangent)) return nullptr;
    return wrap(autograd::make_dual(tensor_argument(primal, "make_dual"),
                                    tensor_argument(tangent, "make_dual")));
  });
}
PyObject* unpack_dual(PyObject*, PyObject* dual) {
  return guarded([&] {
    const Tensor& t = tensor_argument(dual, "unpack_dual");
    const Ref primal = Ref::checked(wrap(autograd::primal_of(t)));
    const Ref tangent = Ref::checked(wrap(autograd::forward_grad(t)));
    return PyTuple_Pack(2, primal.get(), tangent.get());
  });
}

PyMethodDef functions[] = {
    {"_autograd_backward", backward, METH_VARARGS, nullptr},
    {"_autograd_grad", grad, METH_VARARGS, nullptr},
    {"_autograd_edges", grad_of_edges, METH_VARARGS, nullptr},
    {"_current_pass", current_pass, METH_NOARGS, nullptr},
    {"_outermost_pass", outermost_pass, METH_NOARGS, nullptr},
    {"_run_accumulate_hooks", run_accumulate_hooks, METH_O, nullptr},
    {"_at_end_of_pass", at_end_of_pass, METH_O, nullptr},
    {"_pass_reaches", pass_reaches, METH_O, nullptr},
    {"_pass_is_filtered", pass_is_filtered, METH_NOARGS, nullptr},
    {"_increment_version", increment_version, METH_O, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are recorded now."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference_mode, METH_NOARGS,
     "Whether inference mode is on: nothing is recorded, nor can it be later."},
    {"_get_grad_modes", get_modes, METH_NOARGS, nullptr},
    {"_set_grad_modes", set_modes, METH_O, nullptr},
    {"_is_fwd_grad_enabled", is_forward_grad_enabled, METH_NOARGS, nullptr},
    {"_set_anomaly", set_anomaly, METH_VARARGS, nullptr},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, "Whether anomaly mode is on."},
    {"is_anomaly_check_nan_enabled", is_anomaly_nan, METH_NOARGS,
     "Whether anomaly mode looks for NaN in gradients."},
    {"_enter_dual_level", enter_level, METH_NOARGS, nullptr},
    {"_exit_dual_level", exit_level, METH_O, nullptr},
    {"_make_dual", make_dual, METH_VARARGS, nullptr},
    {"_unpack_dual", unpack_dual, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_autograd_modes(PyObject* module) {
  autograd::creation_trace = python_stack;
  autograd::report_anomaly = warn;
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
