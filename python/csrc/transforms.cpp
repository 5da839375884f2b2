// Function transforms: layers are entered and left from Python, and tensors wrapped for them.
#include "python/csrc/transforms.h"

#include "aten/autograd/variable.h"
#include "aten/transforms/batching.h"
#include "python/csrc/arg_parser.h"

namespace flambeau::python {
namespace {

using namespace transforms;

LayerKind kind_from(const char* name) {
  const std::string_view kind = name;
  if (kind == "vmap") return LayerKind::Vmap;
  if (kind == "grad") return LayerKind::Grad;
  check_value(kind == "jvp", "expected a transform 'vmap', 'grad' or 'jvp', got '", name, "'");
  return LayerKind::Jvp;
}

Randomness randomness_from(const char* name) {
  const std::string_view randomness = name;
  if (randomness == "error") return Randomness::Error;
  if (randomness == "same") return Randomness::Same;
  check_value(randomness == "different",
              "randomness: expected 'different', 'error' or 'same', got ", name);
  return Randomness::Different;
}

// _push_layer(kind, batch_size=-1, randomness="error") -> level
PyObject* push(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char *kind, *randomness = "error";
    long long batch_size = -1;
    if (!PyArg_ParseTuple(args, "s|Ls", &kind, &batch_size, &randomness)) return nullptr;
    return wrap(push_layer(kind_from(kind), batch_size, randomness_from(randomness)));
  });
}
PyObject* pop(PyObject*, PyObject*) {
  return guarded([&] {
    pop_layer();
    return wrap_none();
  });
}
PyObject* count(PyObject*, PyObject*) { return wrap(depth()); }

const Tensor& tensor_argument(PyObject* o, const char* what) {
  check_type(is_tensor(o), what, ": expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return tensor_of(o);
}

// _make_batched(tensor, dim, level)
PyObject* batched(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor;
    long long dim, level;
    if (!PyArg_ParseTuple(args, "OLL", &tensor, &dim, &level)) return nullptr;
    return wrap(make_batched(tensor_argument(tensor, "_make_batched"), dim, level));
  });
}
// _make_tracked(tensor, level, requires_grad=False)
PyObject* tracked(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor;
    long long level;
    int requires_grad = 0;
    if (!PyArg_ParseTuple(args, "OL|p", &tensor, &level, &requires_grad)) return nullptr;
    Tensor made = make_tracked(tensor_argument(tensor, "_make_tracked"), level);
    if (requires_grad) autograd::set_requires_grad(made, true);
    return wrap(std::move(made));
  });
}
// _unwrap(tensor, level) -> (value, batch dimension or None), or the tensor if of another level
PyObject* unwrap(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor;
    long long level;
    if (!PyArg_ParseTuple(args, "OL", &tensor, &level)) return nullptr;
    const Wrapper* wrapper = wrapper_at(tensor_argument(tensor, "_unwrap"), level);
    if (!wrapper) return Py_NewRef(tensor);
    const Ref value = Ref::checked(wrap(wrapper->value));
    const Ref dim =
        wrapper->batch_dim < 0 ? Ref::share(Py_None) : Ref::checked(wrap(wrapper->batch_dim));
    return PyTuple_Pack(2, value.get(), dim.get());
  });
}

// _innermost_layer() -> (kind, level, batch size, randomness), or None outside of all transforms
PyObject* innermost(PyObject*, PyObject*) {
  static constexpr const char* kKinds[] = {"vmap", "grad", "jvp"};
  static constexpr const char* kRandomness[] = {"error", "same", "different"};
  const Layer* layer = innermost_layer();
  if (!layer) Py_RETURN_NONE;
  return Py_BuildValue(
      "(sLLs)", kKinds[static_cast<int>(layer->kind)], static_cast<long long>(layer->level),
      static_cast<long long>(layer->batch_size), kRandomness[static_cast<int>(layer->randomness)]);
}

// _call_below(function, *args): the call with the innermost layer left.
PyObject* call_below(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    check_type(n > 0, "_call_below: expected a function");
    const Ref rest = Ref::checked(PyTuple_GetSlice(args, 1, n));
    const BelowLayer below;
    return PyObject_CallObject(PyTuple_GET_ITEM(args, 0), rest.get());
  });
}

const Wrapper* live_wrapper(PyObject* o) {
  if (!is_tensor(o)) return nullptr;
  const Wrapper* wrapper = wrapper_of(tensor_of(o));
  return wrapper && !is_dead(*wrapper) ? wrapper : nullptr;
}
PyObject* is_batched(PyObject*, PyObject* o) {
  const Wrapper* wrapper = live_wrapper(o);
  return wrap(wrapper && wrapper->batch_dim >= 0);
}
PyObject* is_tracked(PyObject*, PyObject* o) {
  const Wrapper* wrapper = live_wrapper(o);
  return wrap(wrapper && wrapper->batch_dim < 0);
}
// 0 for tensors that belong to no active layer.
PyObject* level_of(PyObject*, PyObject* o) {
  const Wrapper* wrapper = live_wrapper(o);
  return wrap(wrapper ? wrapper->level : int64_t{0});
}
// The tensor without the wrappers of layers that have ended.
PyObject* unwrap_dead(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(without_dead(tensor_argument(o, "_unwrap_dead"))); });
}

void warn(const std::string& message) {
  const WithGil gil;
  checked(PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1));
}
// _set_loop_warnings(enabled) -> the previous setting
PyObject* loop_warnings(PyObject*, PyObject* enabled) {
  return wrap(set_loop_warnings(enabled == Py_True));
}

PyMethodDef functions[] = {{"_push_layer", push, METH_VARARGS, nullptr},
                           {"_pop_layer", pop, METH_NOARGS, nullptr},
                           {"_transform_depth", count, METH_NOARGS, nullptr},
                           {"_make_batched", batched, METH_VARARGS, nullptr},
                           {"_make_tracked", tracked, METH_VARARGS, nullptr},
                           {"_innermost_layer", innermost, METH_NOARGS, nullptr},
                           {"_call_below", call_below, METH_VARARGS, nullptr},
                           {"_unwrap", unwrap, METH_VARARGS, nullptr},
                           {"_unwrap_dead", unwrap_dead, METH_O, nullptr},
                           {"_is_batched", is_batched, METH_O, nullptr},
                           {"_is_tracked", is_tracked, METH_O, nullptr},
                           {"_wrapper_level", level_of, METH_O, nullptr},
                           {"_set_loop_warnings", loop_warnings, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

const Tensor& readable(PyObject* object) {
  const Tensor& t = tensor_of(object);
  return t.impl()->wrapper() && !transforms::is_batched(t) ? bottom_of(t) : t;
}

void refuse_backward_in_transforms() {
  check(!innermost_layer(),
        "backward() inside of a transform: use func.grad or func.vjp, or call it outside of all "
        "transforms");
}

void add_transforms(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  warn_of_loop = warn;
}

}  // namespace flambeau::python
