// Saved-tensor hooks: pairs of Python functions that pack a tensor when the graph saves it and
// unpack it when backward needs it. Each thread has its own stack of pairs.
#include <vector>

#include "aten/autograd/saved_tensor.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd_fields.h"

namespace flambeau::python {
namespace {

struct HookPair {
  PyObject* pack;
  PyObject* unpack;
};
thread_local std::vector<HookPair> pairs;  // owns its objects
thread_local std::string disabled;         // why no pair may be pushed; empty: it may

struct PythonSavedHook final : autograd::SavedTensorHook {
  PythonSavedHook(PyObject* p, PyObject* u) : pack_function(p), unpack_function(u) {}
  void pack(const Tensor& tensor) override {
    const WithGil gil;
    const Ref argument = carried(wrap(tensor));
    const Ref result = carried(PyObject_CallOneArg(pack_function.get(), argument.get()));
    packed = std::make_unique<Held>(result.get());
  }
  Tensor unpack() override {
    const WithGil gil;
    const Ref result = carried(PyObject_CallOneArg(unpack_function.get(), packed->get()));
    check_type(is_tensor(result.get()), "unpack_hook: expected a Tensor, got ",
               Py_TYPE(result.get())->tp_name);
    return tensor_of(result.get());
  }
  Held pack_function, unpack_function;
  std::unique_ptr<Held> packed;
};

intrusive_ptr<autograd::SavedTensorHook> make_hook() {
  const WithGil gil;
  return make_intrusive<PythonSavedHook>(pairs.back().pack, pairs.back().unpack);
}

PyObject* push(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
    check(disabled.empty(), disabled);
    pairs.push_back({Py_NewRef(pack), Py_NewRef(unpack)});
    autograd::saved_tensor_hook_factory = make_hook;
    Py_RETURN_NONE;
  });
}

PyObject* pop(PyObject*, PyObject*) {
  return guarded([&] {
    check(!pairs.empty(), "_pop_saved_tensors_hooks: expected active hooks, got none");
    const HookPair last = pairs.back();
    pairs.pop_back();
    if (pairs.empty()) autograd::saved_tensor_hook_factory = nullptr;
    Py_DECREF(last.pack);
    Py_DECREF(last.unpack);
    return wrap_none();
  });
}

// Sets the reason why hooks are refused, "" to allow them; returns the earlier one.
PyObject* disable(PyObject*, PyObject* reason) {
  return guarded([&] {
    const char* text = PyUnicode_AsUTF8(reason);
    if (!text) throw PythonError();
    check(*text == '\0' || pairs.empty(), text);
    Ref previous = Ref::checked(PyUnicode_FromString(disabled.c_str()));
    disabled = text;
    return previous.release();
  });
}

PyMethodDef functions[] = {{"_push_saved_tensors_hooks", push, METH_VARARGS, nullptr},
                           {"_pop_saved_tensors_hooks", pop, METH_NOARGS, nullptr},
                           {"_disable_saved_tensors_hooks", disable, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

intrusive_ptr<autograd::SavedTensorHook> make_saved_hook(PyObject* pack, PyObject* unpack) {
  return make_intrusive<PythonSavedHook>(pack, unpack);
}

void add_saved_tensor_hooks(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  add_saved_tensor_type(module);
}

}  // namespace flambeau::python
