// Hooks written in Python: each takes the GIL for its call and passes errors on as C++ exceptions.
#include "c10/core/check.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {

Held::~Held() {
  if (!Py_IsInitialized()) return;
  const WithGil gil;
  Py_DECREF(p_);
}

Ref carried(PyObject* owned) {
  if (!owned) throw CarriedError();
  return Ref(owned);
}

namespace {

using autograd::Gradients;

const char* type_name(PyObject* o) { return Py_TYPE(o)->tp_name; }

Ref as_tuple(const Gradients& grads) {
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i) {
    PyObject* item = wrap(grads[i]);
    if (!item) throw CarriedError();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

// What a hook gave for a gradient; None keeps it.
Tensor replacement(PyObject* result, const Tensor& grad) {
  if (result == Py_None) return {};
  check_type(is_tensor(result), "hook: expected Variable, but hook returned '", type_name(result),
             "'");
  const Tensor& given = tensor_of(result);
  check(!grad.defined() || given.sizes() == grad.sizes(), "hook: expected a gradient of size ",
        grad.sizes(), ", got ", given.sizes());
  check(!grad.defined() || given.dtype() == grad.dtype(), "hook: expected a gradient of dtype ",
        grad.dtype(), ", got ", given.dtype());
  return given;
}

// The gradients that a hook of a node returned: one Tensor for a single gradient, or a tuple.
void replace_all(PyObject* result, Gradients& grads) {
  if (result == Py_None) return;
  if (is_tensor(result)) {
    check(grads.size() == 1, "hook: expected ", grads.size(), " gradients to be returned, got one");
    grads[0] = replacement(result, grads[0]);
    return;
  }
  check_type(PyTuple_Check(result) || PyList_Check(result),
             "hook: expected a tuple of gradients or None to be returned, got ", type_name(result));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
  check(static_cast<size_t>(n) == grads.size(), "hook: expected ", grads.size(), " values, got ",
        n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(result, i);
    Tensor& grad = grads[static_cast<size_t>(i)];
    grad = item == Py_None ? Tensor() : replacement(item, grad);
  }
}

struct PythonTensorHook final : autograd::TensorHook {
  explicit PythonTensorHook(PyObject* f) : function(f) {}
  Tensor call(const Tensor& grad) override {
    const WithGil gil;
    const Ref argument = carried(wrap(grad));
    const Ref result = carried(PyObject_CallOneArg(function.get(), argument.get()));
    return replacement(result.get(), grad);
  }
  Held function;
};

struct PythonAccumulateHook final : autograd::AccumulateHook {
  explicit PythonAccumulateHook(PyObject* f) : function(f) {}
  void call(const Tensor& variable) override {
    const WithGil gil;
    const Ref argument = carried(wrap(variable));
    const Ref result = carried(PyObject_CallOneArg(function.get(), argument.get()));
    check_type(result.get() == Py_None || is_tensor(result.get()),
               "hook: expected None, but hook returned '", type_name(result.get()), "'");
    check(result.get() == Py_None,
          "register_post_accumulate_grad_hook: expected None from the hook, got a Tensor");
  }
  Held function;
};

struct PythonPassHook final : autograd::PassHook {
  explicit PythonPassHook(PyObject* f) : function(f) {}
  void call() override {
    const WithGil gil;
    carried(PyObject_CallNoArgs(function.get()));
  }
  Held function;
};

struct PythonPreHook final : autograd::NodePreHook {
  explicit PythonPreHook(PyObject* f) : function(f) {}
  void call(Gradients& grads) override {
    const WithGil gil;
    const Ref argument = as_tuple(grads);
    const Ref result = carried(PyObject_CallOneArg(function.get(), argument.get()));
    replace_all(result.get(), grads);
  }
  Held function;
};

struct PythonPostHook final : autograd::NodePostHook {
  explicit PythonPostHook(PyObject* f) : function(f) {}
  void call(Gradients& grad_inputs, const Gradients& grad_outputs) override {
    const WithGil gil;
    const Ref inputs = as_tuple(grad_inputs);
    const Ref outputs = as_tuple(grad_outputs);
    const Ref result =
        carried(PyObject_CallFunctionObjArgs(function.get(), inputs.get(), outputs.get(), nullptr));
    replace_all(result.get(), grad_inputs);
  }
  Held function;
};

}  // namespace

intrusive_ptr<autograd::TensorHook> make_tensor_hook(PyObject* function) {
  return make_intrusive<PythonTensorHook>(function);
}
intrusive_ptr<autograd::PassHook> make_pass_hook(PyObject* function) {
  return make_intrusive<PythonPassHook>(function);
}
intrusive_ptr<autograd::AccumulateHook> make_accumulate_hook(PyObject* function) {
  return make_intrusive<PythonAccumulateHook>(function);
}
intrusive_ptr<autograd::NodePreHook> make_pre_hook(PyObject* function) {
  return make_intrusive<PythonPreHook>(function);
}
intrusive_ptr<autograd::NodePostHook> make_post_hook(PyObject* function) {
  return make_intrusive<PythonPostHook>(function);
}

namespace {

template <typename PythonHook, typename Hook>
PyObject* function_in(const Hook& hook) {
  const auto* python = dynamic_cast<const PythonHook*>(&hook);
  return python ? python->function.get() : nullptr;
}

}  // namespace

PyObject* function_of(const autograd::TensorHook& hook) {
  return function_in<PythonTensorHook>(hook);
}
PyObject* function_of(const autograd::AccumulateHook& hook) {
  return function_in<PythonAccumulateHook>(hook);
}
PyObject* function_of(const autograd::NodePreHook& hook) {
  return function_in<PythonPreHook>(hook);
}
PyObject* function_of(const autograd::NodePostHook& hook) {
  return function_in<PythonPostHook>(hook);
}

}  // namespace flambeau::python
