#include "python/csrc/torch_function.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "aten/autograd/variable.h"
#include "python/csrc/default_override.h"
#include "python/csrc/generated.h"
#include "python/csrc/native_stack.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {

int modes_entered = 0;

namespace {

enum class Overriding : uint8_t { Enabled, SubclassesDisabled, AllDisabled };

thread_local constinit Overriding overriding_state = Overriding::Enabled;
thread_local constinit bool skips_next = false;
// Innermost last; owns its objects. A pointer, because a thread's end must not touch Python.
thread_local constinit std::vector<PyObject*>* modes = nullptr;
PyObject* disabled_impl;

std::vector<PyObject*>& mode_stack() {
  if (!modes) modes = new std::vector<PyObject*>();
  return *modes;
}

// For functions written in Python, plain tensors are among the `types` as well.
struct Calling {
  bool is_python = false;
};

PyObject* method_name() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

bool is_basic(PyTypeObject* type) {
  return type == tensor_type || type == &PyFloat_Type || type == &PyLong_Type ||
         type == &PyUnicode_Type || type == &PyTuple_Type || type == &PyList_Type ||
         type == &PyBool_Type || type == Py_TYPE(Py_None) || type == &PyComplex_Type ||
         type == &PySlice_Type || type == &PyDict_Type || type == &PyBytes_Type ||
         type == dtype_type || type == device_type || type == &PyEllipsis_Type;
}

// Whether `o` has an attribute __torch_function__, of its class or its own.
bool has_override(PyObject* o) {
  if (PyObject* found = _PyType_Lookup(Py_TYPE(o), method_name())) return found != disabled_impl;
  if (Py_TYPE(o)->tp_getattro == PyObject_GenericGetAttr && Py_TYPE(o)->tp_dictoffset == 0)
    return false;
  const Ref own(PyObject_GetAttr(o, method_name()));
  if (!own) PyErr_Clear();  // as hasattr, of whatever __getattr__ raises
  return own && own.get() != disabled_impl;
}

void collect(PyObject* o, Calling calling, std::vector<PyObject*>* overriding) {
  if (!overrides(o) && !(calling.is_python && is_exact_tensor(o))) return;
  add_by_class(o, *overriding);
}
std::vector<PyObject*> collected(PyObject* const* args, Py_ssize_t count, Calling calling) {
  std::vector<PyObject*> overriding;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* o = args[i];
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
      collect(o, calling, &overriding);
      continue;
    }
    if (overrides(o)) collect(o, calling, &overriding);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
      collect(PySequence_Fast_GET_ITEM(o, k), calling, &overriding);
  }
  return overriding;
}

// The innermost mode is out of force while it runs: what it calls is offered to the next one.
class SuspendedMode {
 public:
  SuspendedMode() : mode_(mode_stack().back()) { mode_stack().pop_back(); }
  ~SuspendedMode() { mode_stack().push_back(mode_); }
  SuspendedMode(const SuspendedMode&) = delete;
  SuspendedMode& operator=(const SuspendedMode&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  PyObject* mode_;
};

// What the methods of overrides receive.
struct OverrideCall {
  Ref function, types, positional, named;  // named: null where no keyword was given

  // The answer of a method that a mode or an argument has.
  Ref of(PyObject* method) const {
    check_native_stack();
    PyObject* const args[] = {nullptr, function.get(), types.get(), positional.get(), named.get()};
    const size_t count = named ? 4 : 3;
    return Ref::checked(
        PyObject_Vectorcall(method, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  }
};

OverrideCall prepared(PyObject* function, const std::vector<PyObject*>& overriding,
                      PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  OverrideCall call = {Ref::share(function), types_of(overriding), Ref::checked(PyTuple_New(nargs)),
                       Ref()};
  for (Py_ssize_t i = 0; i < nargs; ++i)
    PyTuple_SET_ITEM(call.positional.get(), i, Py_NewRef(args[i]));
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (keywords) call.named = Ref::checked(PyDict_New());
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    checked(PyDict_SetItem(call.named.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]));
  }
  return call;
}

void warn_of_plain_method(PyObject* o, PyObject* method, Calling calling) {
  if (!PyMethod_Check(method) || PyMethod_GET_SELF(method) != o) return;
  checked(PyErr_WarnEx(calling.is_python ? PyExc_DeprecationWarning : PyExc_UserWarning,
                       "__torch_function__: a plain method is deprecated; make it a classmethod",
                       1));
}

Ref answer_of(PyObject* o, const OverrideCall& call, Calling calling) {
  if (takes_default_override(o, _PyType_Lookup(Py_TYPE(o), method_name())))
    return default_override(Py_TYPE(o), call.function.get(), call.types.get(),
                            call.positional.get(), call.named.get());
  const Ref method = Ref::checked(PyObject_GetAttr(o, method_name()));
  if (!is_exact_tensor(o)) warn_of_plain_method(o, method.get(), calling);
  return call.of(method.get());
}

// The result of the first that answers; null, without an error, when none does.
Ref answer(const OverrideCall& call, const std::vector<PyObject*>& overriding, Calling calling) {
  if (mode_in_force()) {
    const SuspendedMode suspended;
    const Ref method = Ref::checked(PyObject_GetAttr(suspended.mode(), method_name()));
    Ref result = call.of(method.get());
    if (result.get() != Py_NotImplemented) return result;
  }
  std::vector<Ref> kept;  // an override may release the arguments
  for (PyObject* o : overriding) kept.push_back(Ref::share(o));
  for (PyObject* o : overriding) {
    if (overriding_state != Overriding::Enabled) break;
    Ref result = answer_of(o, call, calling);
    if (result.get() != Py_NotImplemented) return result;
  }
  return Ref();
}

[[noreturn]] void fail_unanswered(PyObject* function, const std::vector<PyObject*>& overriding) {
  const Ref types = types_of(overriding);
  const Ref listed = Ref::checked(PySequence_List(types.get()));
  PyErr_Format(PyExc_TypeError,
               "no implementation found for %R on types that implement __torch_function__: %R; "
               "all returned NotImplemented",
               function, listed.get());
  throw PythonError();
}

}  // namespace

void add_by_class(PyObject* o, std::vector<PyObject*>& objects) {
  const auto same = [&](PyObject* other) { return Py_TYPE(other) == Py_TYPE(o); };
  if (std::any_of(objects.begin(), objects.end(), same)) return;
  const auto base = std::find_if(objects.begin(), objects.end(), [&](PyObject* other) {
    return PyType_IsSubtype(Py_TYPE(o), Py_TYPE(other));
  });
  objects.insert(base, o);
}

Ref types_of(const std::vector<PyObject*>& objects) {
  Ref types = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (size_t i = 0; i < objects.size(); ++i) {
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i), Py_NewRef(Py_TYPE(objects[i])));
  }
  return types;
}

PyObject* call_as_given(PyObject* args, PyObject* kwargs) {
  PyObject *function, *types, *inner_args;
  PyObject* inner_kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OOO|O", &function, &types, &inner_args, &inner_kwargs))
    return nullptr;
  const Ref positional(PySequence_Tuple(inner_args));
  if (!positional) return nullptr;
  PyObject* named = inner_kwargs && inner_kwargs != Py_None ? inner_kwargs : kwargs;
  return PyObject_Call(function, positional.get(), named);
}

size_t mode_count() { return modes ? modes->size() : 0; }

bool mode_sees_calls() {
  return modes && !modes->empty() && overriding_state != Overriding::AllDisabled;
}

bool overrides(PyObject* o) {
  return overriding_state == Overriding::Enabled && !is_basic(Py_TYPE(o)) && has_override(o);
}

bool holds_override(PyObject* o) {
  if (overrides(o)) return true;
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (overrides(PySequence_Fast_GET_ITEM(o, i))) return true;
  }
  return false;
}

bool any_overrides(PyObject* const* args, Py_ssize_t count) {
  if (overriding_state != Overriding::Enabled) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_exact_tensor(args[i]) && holds_override(args[i])) return true;
  }
  return false;
}

WithoutSubclasses::WithoutSubclasses() : outer_(static_cast<uint8_t>(overriding_state)) {
  if (overriding_state == Overriding::Enabled) overriding_state = Overriding::SubclassesDisabled;
}
WithoutSubclasses::~WithoutSubclasses() { overriding_state = static_cast<Overriding>(outer_); }

bool is_handed_over() { return !std::exchange(skips_next, false); }

namespace {

PyObject* interned(const char* name) {
  static auto& strings = *new std::unordered_map<std::string, PyObject*>();
  PyObject*& found = strings[name];
  if (!found) found = Ref::checked(PyUnicode_InternFromString(name)).release();
  return found;
}
// A submodule of _C.
PyObject* submodule(const char* name) {
  static auto& modules = *new std::unordered_map<std::string, PyObject*>();
  PyObject*& found = modules[name];
  if (!found)
    found = Ref::checked(PyImport_ImportModule(text_of("flambeau._C.", name).c_str())).release();
  return found;
}

}  // namespace

Ref public_member(const PublicName& name) {
  PyObject* const owner =
      name.is_method ? reinterpret_cast<PyObject*>(tensor_type) : submodule(name.module);
  Ref member = Ref::checked(PyObject_GetAttr(owner, interned(name.name)));
  if (!name.accessor) return member;
  return Ref::checked(PyObject_GetAttrString(member.get(), name.accessor));
}

PyObject* call_override(const PublicName& name, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  const Ref function = public_member(name);
  const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const std::vector<PyObject*> overriding = collected(args, count, {});
  Ref result = answer(prepared(function.get(), overriding, args, nargs, kwnames), overriding, {});
  if (result) return result.release();
  fail_unanswered(function.get(), overriding);
}

bool may_override(PyObject* o) { return overrides(o); }

PyObject* call_overridden(const InfixNames& names, PyObject* a, PyObject* b) {
  const bool is_reflected = b && !is_tensor(a) && is_tensor(b);
  PyObject* const args[] = {is_reflected ? b : a, is_reflected ? a : b};
  const Py_ssize_t count = b ? 2 : 1;
  const Ref function = public_member({is_reflected ? names.reflected : names.forward, true});
  const std::vector<PyObject*> overriding = collected(args, count, {});
  Ref result = answer(prepared(function.get(), overriding, args, count, nullptr), overriding, {});
  if (result) return result.release();
  if (b) Py_RETURN_NOTIMPLEMENTED;  // the other operand has its own method, or Python raises
  fail_unanswered(function.get(), overriding);
}

Tensor with_requires_grad(Tensor tensor, bool requires_grad) {
  if (requires_grad) {
    check(is_differentiable_type(tensor.dtype()),
          "requires_grad: only Tensors of floating point dtypes, or complex ones, require "
          "gradients, got ",
          tensor.dtype());
    autograd::set_requires_grad(tensor, true);
  }
  return tensor;
}

// --- functions of _C -----------------------------------------------------------------------------

namespace {

PyObject* disabled_torch_function(PyObject*, PyObject* args, PyObject* kwargs) {
  const WithoutSubclasses plain;
  return call_as_given(args, kwargs);
}

PyObject* get_state(PyObject*, PyObject*) {
  return PyLong_FromLong(static_cast<long>(overriding_state));
}
PyObject* set_state(PyObject*, PyObject* o) {
  return guarded([&] {
    const int64_t state = integer_from(o);
    check_value(state >= 0 && state <= 2, "_set_torch_function_state: expected 0, 1 or 2, got ",
                state);
    overriding_state = static_cast<Overriding>(state);
    return wrap_none();
  });
}
PyObject* set_skip(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(std::exchange(skips_next, checked(PyObject_IsTrue(o)) == 1)); });
}

PyObject* push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    mode_stack().push_back(Py_NewRef(mode));
    ++modes_entered;
    return wrap_none();
  });
}
PyObject* pop_mode(PyObject*, PyObject*) {
  return guarded([&] {
    check(!mode_stack().empty(), "_pop_torch_function_stack: expected an active mode, got none");
    PyObject* mode = mode_stack().back();
    mode_stack().pop_back();
    --modes_entered;
    return mode;
  });
}
PyObject* stack_length(PyObject*, PyObject*) { return PyLong_FromSize_t(mode_count()); }
PyObject* stack_at(PyObject*, PyObject* index) {
  return guarded([&] {
    const int64_t i = integer_from(index);
    check_index(i >= 0 && i < static_cast<int64_t>(mode_stack().size()),
                "_get_function_stack_at: expected an index below ", mode_stack().size(), ", got ",
                i);
    return Py_NewRef(mode_stack()[static_cast<size_t>(i)]);
  });
}

PyObject* is_enabled(PyObject*, PyObject*) { return wrap(overriding_state == Overriding::Enabled); }
PyObject* is_all_disabled(PyObject*, PyObject*) {
  return wrap(overriding_state == Overriding::AllDisabled);
}
PyObject* is_mode_enabled(PyObject*, PyObject*) { return wrap(mode_in_force()); }

// Questions of functions that offer themselves: one object, some objects, a sequence of objects.
PyObject* has_variadic(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return wrap((mode_in_force() || any_overrides(args, count)) && is_handed_over());
}
PyObject* has_unary(PyObject*, PyObject* o) { return has_variadic(nullptr, &o, 1); }
PyObject* has_any(PyObject*, PyObject* sequence) {
  const Ref items(PySequence_Fast(sequence, "has_torch_function: expected a sequence"));
  if (!items) return nullptr;
  return has_variadic(nullptr, PySequence_Fast_ITEMS(items.get()),
                      PySequence_Fast_GET_SIZE(items.get()));
}
PyObject* has_override_of(PyObject*, PyObject* o) { return wrap(overrides(o)); }

// _overriding_args(sequence): those whose __torch_function__ would be asked, in that order.
PyObject* overriding_args(PyObject*, PyObject* sequence) {
  return guarded([&] {
    const Ref items = Ref::checked(PySequence_Fast(sequence, "expected a sequence of arguments"));
    std::vector<PyObject*> found;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
      collect(PySequence_Fast_GET_ITEM(items.get(), i), {.is_python = true}, &found);
    Ref list = Ref::checked(PyList_New(0));
    for (PyObject* o : found) checked(PyList_Append(list.get(), o));
    return list.release();
  });
}

// _call_overrides(function, relevant arguments, args, kwargs, is_python)
PyObject* call_overrides(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *relevant, *args, *kwargs;
    int is_python;
    if (!PyArg_ParseTuple(given, "OO!O!O!p", &function, &PyTuple_Type, &relevant, &PyTuple_Type,
                          &args, &PyDict_Type, &kwargs, &is_python)) {
      return nullptr;
    }
    const Calling calling = {is_python != 0};
    const std::vector<PyObject*> overriding =
        collected(PySequence_Fast_ITEMS(relevant), PyTuple_GET_SIZE(relevant), calling);
    const bool is_named = is_python || PyDict_GET_SIZE(kwargs) > 0;
    const OverrideCall call = {Ref::share(function), types_of(overriding), Ref::share(args),
                               is_named ? Ref::share(kwargs) : Ref()};
    Ref result = answer(call, overriding, calling);
    if (result) return result.release();
    fail_unanswered(function, overriding);
  });
}

template <typename F>
PyCFunction as_function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", as_function(disabled_torch_function),
     METH_VARARGS | METH_KEYWORDS, "The __torch_function__ of classes that do not want one."},
    {"_get_torch_function_state", get_state, METH_NOARGS, nullptr},
    {"_set_torch_function_state", set_state, METH_O, nullptr},
    {"_set_skip_next_torch_function", set_skip, METH_O, nullptr},
    {"_push_on_torch_function_stack", push_mode, METH_O, nullptr},
    {"_pop_torch_function_stack", pop_mode, METH_NOARGS, nullptr},
    {"_len_torch_function_stack", stack_length, METH_NOARGS, nullptr},
    {"_get_function_stack_at", stack_at, METH_O, nullptr},
    {"_is_torch_function_enabled", is_enabled, METH_NOARGS, nullptr},
    {"_is_torch_function_all_disabled", is_all_disabled, METH_NOARGS, nullptr},
    {"_is_torch_function_mode_enabled", is_mode_enabled, METH_NOARGS, nullptr},
    {"_has_torch_function", has_any, METH_O, nullptr},
    {"_has_torch_function_unary", has_unary, METH_O, nullptr},
    {"_has_torch_function_variadic", as_function(has_variadic), METH_FASTCALL, nullptr},
    {"_overrides", has_override_of, METH_O, nullptr},
    {"_overriding_args", overriding_args, METH_O, nullptr},
    {"_call_overrides", call_overrides, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_torch_function(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  disabled_impl = Ref::checked(PyObject_GetAttrString(module, functions[0].ml_name)).release();
}

}  // namespace flambeau::python
