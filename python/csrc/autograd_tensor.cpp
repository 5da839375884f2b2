// What autograd adds to Tensor: backward, grad, flags, hooks, views' bases, versions.
#include "aten/autograd/engine.h"
#include "aten/autograd/stand_in.h"
#include "aten/autograd/variable.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/transforms.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::python {
namespace {

using autograd::BackwardOptions;

bool truth(PyObject* o) { return checked(PyObject_IsTrue(o)) == 1; }

// --- attributes ----------------------------------------------------------------------------------

PyObject* get_grad(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    const Tensor grad = autograd::grad_of(t);
    if (grad.defined()) return wrap(grad);
    if (!autograd::is_leaf(t) && !autograd::retains_grad(t)) {
      checked(
          PyErr_WarnEx(PyExc_UserWarning,
                       "grad: this tensor is not a leaf Tensor; backward() fills its .grad only "
                       "if .retain_grad() was called on it before",
                       1));
    }
    Py_RETURN_NONE;
  });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const bool none = !value || value == Py_None;
    check_type(none || is_tensor(value), "grad: expected a Tensor or None, got ",
               none ? "" : Py_TYPE(value)->tp_name);
    autograd::set_grad(tensor_of(self), none ? Tensor() : tensor_of(value));
    return 0;
  });
}

PyObject* get_grad_dtype(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    check(autograd::is_leaf(t), "grad_dtype: it can only be accessed on leaf tensors");
    const ScalarType dtype = autograd::grad_dtype(t);
    return dtype == ScalarType::Undefined ? wrap_none() : wrap(dtype);
  });
}
int set_grad_dtype(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = tensor_of(self);
    check(autograd::is_leaf(t), "grad_dtype: it can only be set on leaf tensors");
    ScalarType dtype = ScalarType::Undefined;
    check(value && (value == Py_None || scalar_type_from(value, &dtype)),
          "grad_dtype must be a torch.dtype or None, but got ",
          value ? Py_TYPE(value)->tp_name : "nothing");
    autograd::set_grad_dtype(t, dtype);
    return 0;
  });
}

PyObject* get_requires_grad(PyObject* self, void*) {
  return wrap(autograd::requires_grad(tensor_of(self)));
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    check(value && PyBool_Check(value), "requires_grad: expected a bool, got ",
          value ? Py_TYPE(value)->tp_name : "nothing");
    check(autograd::is_leaf(tensor_of(self)),
          "requires_grad: expected a leaf tensor (you can only change requires_grad flags of leaf "
          "variables), got a computed one; detach() returns a leaf");
    autograd::set_requires_grad(tensor_of(self), value == Py_True);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::is_leaf(tensor_of(self))); });
}
PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (!autograd::requires_grad(t)) Py_RETURN_NONE;
    return wrap_node(autograd::grad_fn(t));
  });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::retains_grad(tensor_of(self))); });
}
PyObject* get_version(PyObject* self, void*) {
  return guarded([&] {
    const TensorImpl& impl = *tensor_of(self).impl();
    check(!impl.is_inference(),
          "_version: expected a tensor that tracks versions, got an inference tensor "
          "(Inference tensors do not track version counter)");
    return wrap(static_cast<int64_t>(impl.version()));
  });
}
PyObject* get_base(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::base_of(tensor_of(self))); });
}
PyObject* get_output_nr(PyObject* self, void*) {
  return guarded([&] {
    const autograd::AutogradMeta* meta = autograd::meta_of(tensor_of(self));
    return wrap(static_cast<int64_t>(meta ? meta->output_nr : 0));
  });
}
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::variable_data(tensor_of(self))); });
}
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    check_type(value && is_tensor(value), "data: expected a Tensor, got ",
               value ? Py_TYPE(value)->tp_name : "nothing");
    autograd::set_data(tensor_of(self), tensor_of(value));
    return 0;
  });
}

// --- backward ------------------------------------------------------------------------------------

struct BackwardArguments {
  PyObject* gradient = Py_None;
  PyObject* retain_graph = Py_None;
  PyObject* create_graph = Py_False;
  PyObject* inputs = Py_None;
};

void parse_backward(BackwardArguments& a, PyObject* const* args, Py_ssize_t nargs,
                    PyObject* kwnames) {
  PyObject** const slots[] = {&a.gradient, &a.retain_graph, &a.create_graph, &a.inputs};
  static constexpr const char* kNames[] = {"gradient", "retain_graph", "create_graph", "inputs"};
  check_type(nargs <= 4, "backward(): expected at most 4 arguments, got ", nargs);
  for (Py_ssize_t i = 0; i < nargs; ++i) *slots[i] = args[i];
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    Py_ssize_t i = 0;
    while (i < 4 && PyUnicode_CompareWithASCIIString(name, kNames[i]) != 0) ++i;
    check_type(
        i < 4 && i >= nargs,
        "backward(): expected each of its keyword arguments once, got an unexpected or repeated "
        "keyword argument '",
        PyUnicode_AsUTF8(name), "'");
    *slots[i] = args[nargs + k];
  }
}

PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    BackwardArguments a;
    refuse_backward_in_transforms();
    if (nargs || kwnames) parse_backward(a, args, nargs, kwnames);
    check_type(a.gradient == Py_None || is_tensor(a.gradient),
               "gradient: expected Tensors or None, got ", Py_TYPE(a.gradient)->tp_name);
    std::vector<Tensor> inputs;
    if (a.inputs != Py_None) {
      inputs = is_tensor(a.inputs) ? std::vector<Tensor>{tensor_of(a.inputs)}
                                   : tensors_from(a.inputs, "backward");
      check(!inputs.empty(), "backward(): expected one tensor or more as `inputs`, got none");
    }
    BackwardOptions options;
    options.create_graph = truth(a.create_graph);
    options.retain_graph = a.retain_graph == Py_None ? options.create_graph : truth(a.retain_graph);
    const Tensor output = tensor_of(self);
    const Tensor gradient = a.gradient == Py_None ? Tensor() : tensor_of(a.gradient);
    {
      const WithoutGil released;
      autograd::backward({&output, 1}, {&gradient, 1}, inputs, options);
    }
    Py_RETURN_NONE;
  });
}

// --- methods -------------------------------------------------------------------------------------

PyObject* requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames) {
  return guarded([&] {
    static constexpr Param params[] = {
        {.name = "requires_grad", .kind = ParamKind::Bool, .has_default = true}};
    static constexpr Signature signatures[] = {
        {"requires_grad_(bool requires_grad=True)", params, 1}};
    static constexpr Overloads overloads = {"requires_grad_", signatures, 1};
    ParsedArgs p;
    p.parse(overloads, nullptr, args, nargs, kwnames);
    autograd::set_requires_grad(tensor_of(self), p.boolean_or(0, true));
    return Py_NewRef(self);
  });
}
PyObject* detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    autograd::detach_inplace(tensor_of(self));
    return Py_NewRef(self);
  });
}
PyObject* retain_grad(PyObject* self, PyObject*) {
  return guarded([&] {
    autograd::retain_grad(tensor_of(self));
    return wrap_none();
  });
}
PyObject* is_view(PyObject* self, PyObject*) { return wrap(autograd::is_view(tensor_of(self))); }

// The one argument of a method that registers a hook, by position or as `hook`.
PyObject* hook_from(const char* method, PyObject* const* args, Py_ssize_t nargs,
                    PyObject* kwnames) {
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  check_type(nargs + keywords == 1, method, ": expected one argument, hook, got ",
             nargs + keywords);
  check_type(
      !keywords || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "hook") == 0,
      method, ": expected no keyword argument but hook");
  check_type(PyCallable_Check(args[0]), method, ": expected a callable, got ",
             Py_TYPE(args[0])->tp_name);
  return args[0];
}

PyObject* register_hook(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  return guarded([&] {
    PyObject* const function = hook_from("register_hook", args, nargs, kwnames);
    const Tensor& t = tensor_of(self);
    track(self);
    const uint64_t id = autograd::add_tensor_hook(t, make_tensor_hook(function));
    if (intrusive_ptr<autograd::Node> node = autograd::grad_fn(t)) {
      return make_handle(HookPlace::Node, id, node);
    }
    return make_handle(HookPlace::Leaf, id, t);
  });
}
PyObject* register_accumulate_hook(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                   PyObject* kwnames) {
  return guarded([&] {
    PyObject* const function =
        hook_from("register_post_accumulate_grad_hook", args, nargs, kwnames);
    const Tensor& t = tensor_of(self);
    track(self);
    const uint64_t id = autograd::add_accumulate_hook(t, make_accumulate_hook(function));
    return make_handle(HookPlace::Accumulate, id, t);
  });
}

}  // namespace

std::vector<Tensor> tensors_from(PyObject* sequence, const char* what) {
  check_type(PyTuple_Check(sequence) || PyList_Check(sequence), what,
             ": expected a sequence of Tensors, got ", Py_TYPE(sequence)->tp_name);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    check_type(item == Py_None || is_tensor(item), what, ": expected Tensors or None, got ",
               Py_TYPE(item)->tp_name);
    tensors.push_back(item == Py_None ? Tensor() : tensor_of(item));
  }
  return tensors;
}

Tensor alias_with_history(const Tensor& t) {
  if (autograd::requires_grad(t) || autograd::answers_in_python(t)) return ops::alias::call(t);
  return autograd::shallow_alias(t);
}

void add_autograd(PyObject* module) {
  add_node_type(module);
  add_custom_function(module);
  add_autograd_modes(module);
  add_saved_tensor_hooks(module);
}

PyMethodDef autograd_methods[] = {
    {"backward", as_cfunction(backward), METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n\n"
     "Add the gradient of this tensor with respect to the graph's leaves to their .grad."},
    {"requires_grad_", as_cfunction(requires_grad_), METH_FASTCALL | METH_KEYWORDS,
     "Set whether operations on this leaf are recorded; returns it."},
    {"detach_", detach_, METH_NOARGS,
     "Cut the tensor off its history in place, which makes it a leaf."},
    {"retain_grad", retain_grad, METH_NOARGS, "Have backward fill .grad of this non-leaf tensor."},
    {"_is_view", is_view, METH_NOARGS, nullptr},
    {"register_hook", as_cfunction(register_hook), METH_FASTCALL | METH_KEYWORDS,
     "Call hook(grad) whenever this tensor's gradient is computed; a returned Tensor replaces it."},
    {"register_post_accumulate_grad_hook", as_cfunction(register_accumulate_hook),
     METH_FASTCALL | METH_KEYWORDS, "Call hook(tensor) after this leaf's .grad has been updated."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef autograd_getset[] = {
    {"grad", get_grad, set_grad, "The gradient accumulated by backward; None before.", nullptr},
    {"grad_dtype", get_grad_dtype, set_grad_dtype,
     "The dtype of a leaf's gradient; None: that of the gradient that arrives.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether operations on the tensor are recorded.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded operation made it.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that made it; None for a leaf.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether it is a non-leaf whose .grad is filled.",
     nullptr},
    {"_version", get_version, nullptr, "How often its memory was changed in place.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this view was made from; None otherwise.",
     nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of grad_fn it is.", nullptr},
    {"data", get_data, set_data, "The same memory without history or version count.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace flambeau::python
