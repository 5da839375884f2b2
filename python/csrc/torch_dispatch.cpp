#include "python/csrc/torch_dispatch.h"

#include <algorithm>
#include <unordered_map>

#include "aten/dispatch/operator_traits.h"
#include "python/csrc/autograd.h"
#include "python/csrc/boxed_effects.h"
#include "python/csrc/generated.h"
#include "python/csrc/native_stack.h"
#include "python/csrc/python_kernels.h"
#include "python/csrc/torch_function.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

constexpr DispatchKeySet kKey(DispatchKey::BackendMode);
// Conjugate and negative views that Python code makes are still resolved for the operators below.
// The profiler records what Python code calls.
constexpr DispatchKeySet kAbove(
    ((uint64_t{1} << kNumDispatchKeys) - 1) &
    ~(kBackendKeys | kKey | kLazyKeys | DispatchKeySet(DispatchKey::Tracing)).bits());

// Modes of a thread: those of PyTorch's infrastructure, at most one of each kind, which are asked
// last and in the order functional, proxy, fake; then those of the user, innermost last.
constexpr int kInfrastructureModes = 3;
constexpr int kFakeMode = 0;
struct Modes {
  PyObject* infrastructure[kInfrastructureModes] = {};  // owned
  std::vector<PyObject*> users;                         // owned

  size_t size() const {
    return users.size() +
           static_cast<size_t>(std::count_if(std::begin(infrastructure), std::end(infrastructure),
                                             [](const PyObject* mode) { return mode != nullptr; }));
  }
};
// A pointer, because a thread's end must not touch Python.
thread_local constinit Modes* thread_modes = nullptr;
PyObject* disabled_impl;
PyObject* rules;  // dict: (overload, class) -> function

Modes& modes() {
  if (!thread_modes) thread_modes = new Modes();
  return *thread_modes;
}

// The mode of fake tensors; null if none is in force.
PyObject* fake_mode() { return thread_modes ? thread_modes->infrastructure[kFakeMode] : nullptr; }

void refresh_keys() {
  if (modes().size() == 0) {
    thread_state.included &= ~kKey.bits();
  } else {
    thread_state.included |= kKey.bits();
  }
}

// The innermost mode, taken off the stack; `slot` says where to put it back, -1 among the users'.
PyObject* take_innermost(int* slot) {
  Modes& all = modes();
  *slot = -1;
  if (!all.users.empty()) {
    PyObject* const mode = all.users.back();
    all.users.pop_back();
    return mode;
  }
  for (int i = kInfrastructureModes; i-- > 0;) {
    if (!all.infrastructure[i]) continue;
    *slot = i;
    return std::exchange(all.infrastructure[i], nullptr);
  }
  return nullptr;
}
void put_back(PyObject* mode, int slot) {
  if (slot < 0) {
    modes().users.push_back(mode);
  } else {
    Py_XSETREF(modes().infrastructure[slot], mode);
  }
}

// The innermost mode is out of force while it runs: the next one sees what its code calls.
class SuspendedMode {
 public:
  SuspendedMode() : mode_(take_innermost(&slot_)) { refresh_keys(); }
  ~SuspendedMode() {
    put_back(mode_, slot_);
    refresh_keys();
  }
  SuspendedMode(const SuspendedMode&) = delete;
  SuspendedMode& operator=(const SuspendedMode&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  int slot_;
  PyObject* mode_;
};

PyObject* method_name() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_dispatch__");
  return name;
}
bool has_dispatch(PyTypeObject* type) {
  PyObject* const found = type == tensor_type ? nullptr : _PyType_Lookup(type, method_name());
  return found && found != disabled_impl;
}

void collect(const Tensor& t, std::vector<PyObject*>& answering) {
  if (!t.defined() || !t.keys().has(DispatchKey::BackendMode)) return;
  auto* const o = static_cast<PyObject*>(t.impl()->py_slot().object);
  if (o && has_dispatch(Py_TYPE(o))) add_by_class(o, answering);
}
std::vector<PyObject*> collected(const Stack& stack) {
  std::vector<PyObject*> answering;
  for_each_tensor(stack, [&](const Tensor& t) { collect(t, answering); });
  return answering;
}

// `ops.aten.<name>.<overload>`, made once. Where Python makes tensors of numbers, it is the
// overload for tensors.
Ref function_of(const OperatorEntry& called) {
  const bool has_tensor_form = called.traits && called.traits->tensor_form;
  const OperatorEntry& op = has_tensor_form ? *called.traits->tensor_form : called;
  static auto* const known = new std::unordered_map<const OperatorEntry*, PyObject*>();
  PyObject*& found = (*known)[&op];
  if (!found) {
    const Ref ops = carried(PyImport_ImportModule("flambeau.ops"));
    found = carried(PyObject_CallMethod(ops.get(), "overload_of", "s", op.name)).release();
  }
  return Ref::share(found);
}

struct Question {
  Ref function, types;
  PythonArguments arguments;

  // A rule of `register_torch_dispatch` for the function and the class comes first.
  Ref put_to(PyObject* answering) const {
    if (PyDict_GET_SIZE(rules) > 0) {
      auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(answering));
      const Ref key = carried(PyTuple_Pack(2, function.get(), type));
      if (PyObject* const rule = PyDict_GetItemWithError(rules, key.get())) {
        const bool is_tensor_class = is_tensor(answering);
        return carried(PyObject_CallFunctionObjArgs(
            rule, is_tensor_class ? type : answering, function.get(), types.get(),
            arguments.positional.get(), arguments.named.get(), nullptr));
      }
    }
    const Ref method = carried(PyObject_GetAttr(answering, method_name()));
    return carried(PyObject_CallFunctionObjArgs(method.get(), function.get(), types.get(),
                                                arguments.positional.get(), arguments.named.get(),
                                                nullptr));
  }
};

// The first answer; null, without an error, where all are NotImplemented.
Ref answer(const Question& question, const std::vector<Ref>& answering) {
  check_native_stack();
  if (modes().size() > 0) {
    const SuspendedMode suspended;
    Ref result = question.put_to(suspended.mode());
    if (result.get() != Py_NotImplemented) return result;
  }
  for (const Ref& o : answering) {
    Ref result = question.put_to(o.get());
    if (result.get() != Py_NotImplemented) return result;
  }
  return Ref();
}

[[noreturn]] void fail_unanswered(const Question& question) {
  PyErr_Format(PyExc_TypeError,
               "%S: expected an implementation on one of the types with __torch_dispatch__, got "
               "NotImplemented from all of %R (Multiple dispatch failed)",
               question.function.get(), question.types.get());
  throw CarriedError();
}

Ref ask(const Question& question, const std::vector<PyObject*>& answering) {
  std::vector<Ref> kept;  // Python code may release the arguments
  for (PyObject* o : answering) kept.push_back(Ref::share(o));
  const ExcludeKeys below(kAbove);
  Ref result = answer(question, kept);
  if (!result) fail_unanswered(question);
  return result;
}

// The boxed fallback of the key.
void dispatch_to_python(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const DispatchKeySet rest = keys - kKey;
  if (is_transparent(op)) return redispatch_boxed(op, rest, stack);
  const WithGil gil;
  const std::vector<PyObject*> answering = collected(stack);
  if (answering.empty() && modes().size() == 0) return redispatch_boxed(op, rest, stack);
  const BoxedSchema& schema = boxed_schema(op);
  const WriteCounts writes(stack, schema);
  const FreshResults fresh(stack);
  const Question question = {function_of(op), types_of(answering), python_arguments(stack, schema)};
  const Ref result = ask(question, answering);
  writes.raise();
  replace_by_result(result.get(), op, stack, "__torch_dispatch__");
  fresh.check_all(stack, op, "__torch_dispatch__");
}

// --- functions of _C -----------------------------------------------------------------------------

PyObject* disabled_torch_dispatch(PyObject*, PyObject* args, PyObject* kwargs) {
  const ExcludeKeys plain(kKey);
  return call_as_given(args, kwargs);
}

PyObject* push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    modes().users.push_back(Py_NewRef(mode));
    refresh_keys();
    return wrap_none();
  });
}
PyObject* pop_mode(PyObject*, PyObject*) {
  return guarded([&] {
    check(modes().size() > 0, "_pop_torch_dispatch_stack: expected an active mode, got none");
    int slot;
    PyObject* const mode = take_innermost(&slot);
    refresh_keys();
    return mode;
  });
}
int slot_from(PyObject* key) {
  const Ref value = Ref::checked(PyObject_GetAttrString(key, "value"));
  const int64_t slot = integer_from(value.get());
  check_value(slot >= 0 && slot < kInfrastructureModes,
              "_get_dispatch_mode: expected a key of an infrastructure mode, got ", slot);
  return static_cast<int>(slot);
}
PyObject* get_mode(PyObject*, PyObject* key) {
  return guarded([&] {
    PyObject* const mode = modes().infrastructure[slot_from(key)];
    return Py_NewRef(mode ? mode : Py_None);
  });
}
// _set_dispatch_mode(mode): by its _mode_key.
PyObject* set_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    const Ref key = Ref::checked(PyObject_GetAttrString(mode, "_mode_key"));
    put_back(Py_NewRef(mode), slot_from(key.get()));
    refresh_keys();
    return wrap_none();
  });
}
PyObject* unset_mode(PyObject*, PyObject* key) {
  return guarded([&] {
    PyObject* const mode = std::exchange(modes().infrastructure[slot_from(key)], nullptr);
    refresh_keys();
    return mode ? mode : wrap_none();
  });
}
PyObject* stack_length(PyObject*, PyObject*) { return PyLong_FromSize_t(modes().size()); }
PyObject* stack_at(PyObject*, PyObject* index) {
  return guarded([&] {
    int64_t at = integer_from(index);
    check_index(at >= 0 && at < static_cast<int64_t>(modes().size()),
                "_get_dispatch_stack_at: expected an index below ", modes().size(), ", got ", at);
    for (PyObject* mode : modes().infrastructure) {
      if (mode && at-- == 0) return Py_NewRef(mode);
    }
    return Py_NewRef(modes().users[static_cast<size_t>(at)]);
  });
}

std::vector<PyObject*> answering_among(PyObject* tensors) {
  std::vector<PyObject*> answering;
  for (const Tensor& t : tensors_from(tensors, "_has_torch_dispatch")) collect(t, answering);
  return answering;
}
// _has_torch_dispatch(tensors): whether a mode is active or a class among them has the method.
PyObject* has_torch_dispatch(PyObject*, PyObject* tensors) {
  return guarded([&] {
    const DispatchKeySet excluded(thread_state.excluded);
    return wrap(!excluded.has(DispatchKey::BackendMode) &&
                (modes().size() > 0 || !answering_among(tensors).empty()));
  });
}
// _call_torch_dispatch(function, tensors, args, kwargs): the answer of modes and classes to a call
// of an operator that is defined in Python.
PyObject* call_torch_dispatch(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *tensors, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!O!", &function, &PyList_Type, &tensors, &PyTuple_Type, &args,
                          &PyDict_Type, &kwargs)) {
      return nullptr;
    }
    const std::vector<PyObject*> answering = answering_among(tensors);
    const Question question = {
        Ref::share(function), types_of(answering), {Ref::share(args), Ref::share(kwargs)}};
    return ask(question, answering).release();
  });
}

// _is_composite(name): whether the operator is made of others and has no derivative of its own.
PyObject* is_composite(PyObject*, PyObject* name) {
  const OperatorEntry* const op = find_operator(PyUnicode_AsUTF8(name));
  return wrap(op && is_transparent(*op));
}
// Whether the tensor has elements that are in no memory: its class answers for them.
PyObject* has_no_memory(PyObject*, PyObject* o) {
  return guarded([&] {
    check_type(is_tensor(o), "_has_no_memory: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    const Tensor& t = tensor_of(o);
    return wrap(t.keys().has(DispatchKey::BackendMode) && !t.storage()->data());
  });
}
PyObject* excluded_keys(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(thread_state.excluded);
}
PyObject* included_keys(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(thread_state.included);
}
PyObject* set_excluded_keys(PyObject*, PyObject* bits) {
  return guarded([&] {
    thread_state.excluded = static_cast<uint64_t>(integer_from(bits)) & ~kBackendKeys.bits();
    return wrap_none();
  });
}
PyObject* dispatch_key_bit(PyObject*, PyObject* name) {
  for (int i = 0; i < kNumDispatchKeys; ++i) {
    const auto key = static_cast<DispatchKey>(i);
    if (PyUnicode_CompareWithASCIIString(name, name_of(key)) == 0)
      return PyLong_FromUnsignedLongLong(DispatchKeySet(key).bits());
  }
  return PyLong_FromLong(0);
}

// _call_operator(name, args, kwargs, keys): with the keys of the call if `keys` is 0. The overload
// itself; NotImplemented for arguments that its schema does not take.
PyObject* call_operator(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count == 4, "_call_operator: expected 4 arguments, got ", int64_t{count});
    const OperatorEntry* const op = find_operator(PyUnicode_AsUTF8(given[0]));
    check(op != nullptr, "_call_operator: expected the name of an operator, got ",
          PyUnicode_AsUTF8(given[0]));
    Stack stack;
    if (!stack_from(*op, given[1], given[2], &stack)) Py_RETURN_NOTIMPLEMENTED;
    const DispatchKeySet keys(static_cast<uint64_t>(integer_from(given[3])));
    const Redispatched below_autograd(keys.empty() || keys.has(DispatchKey::Autograd) ? nullptr
                                                                                      : op);
    run_operator(*op, keys, stack);
    return python_result(stack, *op).release();
  });
}

PyMethodDef functions[] = {
    {"_disabled_torch_dispatch_impl", as_cfunction(disabled_torch_dispatch),
     METH_VARARGS | METH_KEYWORDS, "The __torch_dispatch__ of classes that do not want one."},
    {"_push_on_torch_dispatch_stack", push_mode, METH_O, nullptr},
    {"_pop_torch_dispatch_stack", pop_mode, METH_NOARGS, nullptr},
    {"_get_dispatch_mode", get_mode, METH_O, nullptr},
    {"_set_dispatch_mode", set_mode, METH_O, nullptr},
    {"_unset_dispatch_mode", unset_mode, METH_O, nullptr},
    {"_len_torch_dispatch_stack", stack_length, METH_NOARGS, nullptr},
    {"_get_dispatch_stack_at", stack_at, METH_O, nullptr},
    {"_has_torch_dispatch", has_torch_dispatch, METH_O, nullptr},
    {"_call_torch_dispatch", call_torch_dispatch, METH_VARARGS, nullptr},
    {"_call_operator", as_cfunction(call_operator), METH_FASTCALL, nullptr},
    {"_is_composite", is_composite, METH_O, nullptr},
    {"_dispatch_key_bit", dispatch_key_bit, METH_O, nullptr},
    {"_has_no_memory", has_no_memory, METH_O, nullptr},
    {"_excluded_keys", excluded_keys, METH_NOARGS, nullptr},
    {"_included_keys", included_keys, METH_NOARGS, nullptr},
    {"_set_excluded_keys", set_excluded_keys, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void run_operator(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  int64_t elements = 0;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor() && stack[i].tensor().defined())
      elements = std::max(elements, stack[i].tensor().numel());
  }
  const WithoutGil released(elements > kReleaseGilAbove);
  if (keys.empty()) {
    call_boxed(op, stack);
  } else {
    call_boxed_at(op, keys, stack);
  }
}

Device device_of_data(Device wanted) { return fake_mode() ? Device(DeviceType::CPU) : wanted; }

Tensor adopted_by_mode(Tensor made, Device wanted) {
  const Ref mode = Ref::share(fake_mode());
  if (!mode) return made;
  const Ref given = Ref::checked(wrap(std::move(made)));
  const Ref device = Ref::checked(wrap_device(wanted));
  const Ref adopted =
      Ref::checked(PyObject_CallMethod(mode.get(), "_adopt", "OO", given.get(), device.get()));
  check_type(is_tensor(adopted.get()), "_adopt: expected a mode to return a Tensor, got ",
             Py_TYPE(adopted.get())->tp_name);
  return tensor_of(adopted.get());
}

Ref answer_of_class(PyObject* function, PyObject* tensor, PyObject* args) {
  const std::vector<PyObject*> answering = {tensor};
  const Question question = {
      Ref::share(function), types_of(answering), {Ref::share(args), carried(PyDict_New())}};
  const Ref kept = Ref::share(tensor);
  Ref result = answer(question, {kept});
  if (!result) fail_unanswered(question);
  return result;
}

void offer_to_dispatch(PyTypeObject* type, const Tensor& tensor) {
  if (has_dispatch(type)) tensor.impl()->add_keys(kKey);
}

void add_torch_dispatch(PyObject* module) {
  set_boxed_fallback(DispatchKey::BackendMode, dispatch_to_python);
  checked(PyModule_AddFunctions(module, functions));
  rules = Ref::checked(PyDict_New()).release();
  checked(PyModule_AddObjectRef(module, "_torch_dispatch_rules", rules));
  disabled_impl = Ref::checked(PyObject_GetAttrString(module, functions[0].ml_name)).release();
}

}  // namespace flambeau::python
