#include "python/csrc/operator_call.h"

#include <structmember.h>

#include <cstring>

#include "aten/autograd/variable.h"
#include "aten/transforms/autocast.h"
#include "python/csrc/autograd.h"
#include "python/csrc/autograd_function.h"
#include "python/csrc/boxed_schema.h"
#include "python/csrc/defined_operator.h"
#include "python/csrc/generated.h"
#include "python/csrc/native_stack.h"
#include "python/csrc/torch_dispatch.h"
#include "python/csrc/torch_function.h"

namespace flambeau::python {
namespace {

// The front of both types.
struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OperatorEntry* entry;  // of the dispatcher; null: kernels are in Python
};
struct OperatorObject {
  CallableObject base;
  DefinedOperator op;
};
struct HandleObject {
  CallableObject base;
  PyObject* target;  // an OperatorObject, or null
};
PyTypeObject* operator_type;

CallableObject& callable_of(PyObject* o) { return *reinterpret_cast<CallableObject*>(o); }
DefinedOperator& operator_of(PyObject* o) { return reinterpret_cast<OperatorObject*>(o)->op; }
HandleObject& handle_of(PyObject* o) { return *reinterpret_cast<HandleObject*>(o); }

struct Arguments {
  PyObject* const* values;
  Py_ssize_t positional;
  PyObject* names;  // of keywords, or null

  Py_ssize_t named() const { return names ? PyTuple_GET_SIZE(names) : 0; }
  Py_ssize_t count() const { return positional + named(); }
};

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

PyObject* call_slowly(PyObject* self, const Arguments& given) {
  static PyObject* const name = interned("_call_slowly");
  SmallVector<PyObject*, 16> all;
  all.push_back(self);
  for (Py_ssize_t i = 0; i < given.count(); ++i) all.push_back(given.values[i]);
  return PyObject_VectorcallMethod(name, all.data(), static_cast<size_t>(given.positional) + 1,
                                   given.names);
}

bool is_taken_over(const Arguments& given) {
  return mode_in_force() || any_overrides(given.values, given.count());
}

// --- operators of the dispatcher ----------------------------------------------------------------

// Null without an error where the schema does not take the arguments.
Ref call_entry(const OperatorEntry& op, const Arguments& given) {
  static PyObject* const no_names = PyTuple_New(0);
  const BoxedSchema& schema = boxed_schema(op);
  Stack stack;
  if (!stack_of_call(schema, given.values, given.positional, given.names ? given.names : no_names,
                     &stack))
    return Ref();
  run_operator(op, DispatchKeySet(), stack);
  return python_result(stack, op);
}

// --- operators of Python ------------------------------------------------------------------------

// One value per parameter, without a reference of its own. False: not all are plain.
using Values = SmallVector<PyObject*, 16>;

size_t index_of(const DefinedOperator& op, PyObject* name) {
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    if (op.parameters[i].name.get() == name) return i;
  }
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    if (PyUnicode_Compare(op.parameters[i].name.get(), name) == 0) return i;
  }
  return op.parameters.size();
}

bool place(const DefinedOperator& op, const Arguments& given, Values& values) {
  if (given.positional > static_cast<Py_ssize_t>(op.places)) return false;
  for (size_t i = 0; i < op.parameters.size(); ++i)
    values.push_back(static_cast<Py_ssize_t>(i) < given.positional ? given.values[i] : nullptr);
  for (Py_ssize_t k = 0; k < given.named(); ++k) {
    const size_t at = index_of(op, PyTuple_GET_ITEM(given.names, k));
    if (at == values.size() || values[at]) return false;
    values[at] = given.values[given.positional + k];
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_left_out = !values[i];
    if (is_left_out) values[i] = op.parameters[i].preset.get();
    if (is_left_out && values[i] && PyList_Check(values[i]) && i + 1 < values.size()) return false;
    if (!values[i] || !is_plain(op.parameters[i].type, values[i])) return false;
  }
  return true;
}

// What the tensors of a call say about it.
struct Operands {
  DeviceType device = DeviceType::CPU;
  bool found = false, is_recorded = false, is_special = false;

  void add(const Tensor& t) {
    constexpr DispatchKeySet kPlain =
        kBackendKeys | kLazyKeys | DispatchKey::Autograd | DispatchKey::Autocast;
    if (!found) device = t.device().type;
    found = true;
    is_recorded |= autograd::requires_grad(t);
    is_special |= t.impl()->wrapper() || !(t.keys() - kPlain).empty();
  }
};

// Python code makes the event of a profiled call.
bool thread_is_plain() {
  constexpr DispatchKeySet kHarmless =
      DispatchKeySet(DispatchKey::Autocast) | DispatchKey::Autograd;
  return (DispatchKeySet(thread_state.included) - kHarmless).empty();
}

// Asks Python once for each device type: (function, recorder, setup, is_unaliased, is_composite,
// casts, is_wrapped).
const DefinedKernel& kernel_for(PyObject* self, DeviceType device) {
  DefinedKernel& known = operator_of(self).kernels[static_cast<size_t>(device)];
  if (known.function) return known;
  const Ref answer = Ref::checked(PyObject_CallMethod(self, "_kernel_for", "s", name_of(device)));
  PyObject *function, *recorder, *setup;
  int is_unaliased, is_composite, casts, is_wrapped;
  if (!PyArg_ParseTuple(answer.get(), "OOOpppp", &function, &recorder, &setup, &is_unaliased,
                        &is_composite, &casts, &is_wrapped))
    throw PythonError();
  known.recorder = recorder == Py_None ? Ref() : Ref::share(recorder);
  known.setup = setup == Py_None ? Ref() : Ref::share(setup);
  known.is_unaliased = is_unaliased != 0;
  known.is_composite = is_composite != 0;
  known.casts = casts != 0;
  known.is_wrapped = is_wrapped != 0;
  known.function = Ref::share(function);
  return known;
}

Ref call_recorded(const DefinedOperator& op, const DefinedKernel& kernel, const Values& values) {
  const Ref arguments = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i]));
  const Ref function = kernel.function, recorder = kernel.recorder, setup = kernel.setup;
  const bool is_unaliased = kernel.is_unaliased;
  return apply_recorder(recorder.get(), arguments.get(), setup.get(), [&] {
    return run_kernel(op, function.get(), is_unaliased, values.data());
  });
}

// Null without an error where Python code must see the call.
Ref call_defined(PyObject* self, const Arguments& given) {
  const DefinedOperator& op = operator_of(self);
  Values values;
  if (!thread_is_plain() || !place(op, given, values)) return Ref();
  Operands operands;
  for (PyObject* value : values)
    visit_tensor_values(value, [&](const Tensor& t) { operands.add(t); });
  if (operands.is_special) return Ref();
  const DefinedKernel& kernel = kernel_for(self, operands.device);
  if (kernel.is_wrapped || (kernel.casts && autocast::is_enabled(operands.device))) return Ref();
  const bool records = !kernel.is_composite && thread_state.grad_enabled && operands.is_recorded;
  if (!records) return run_kernel(op, kernel.function.get(), kernel.is_unaliased, values.data());
  return kernel.recorder ? call_recorded(op, kernel, values) : Ref();
}

// --- calls --------------------------------------------------------------------------------------

class RecursionGuard {
 public:
  RecursionGuard() {
    check_native_stack();
    checked(Py_EnterRecursiveCall(" while calling an operator"));
  }
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
};

PyObject* call_operator_object(PyObject* self, PyObject* const* args, size_t flags,
                               PyObject* names) {
  return guarded([&]() -> PyObject* {
    const RecursionGuard guard;
    const Arguments given = {args, PyVectorcall_NARGS(flags), names};
    const Ref kept = Ref::share(self);  // its definition may be removed meanwhile
    if (!is_taken_over(given)) {
      const OperatorEntry* const entry = callable_of(self).entry;
      Ref result = entry ? call_entry(*entry, given) : call_defined(self, given);
      if (result) return result.release();
    }
    return call_slowly(self, given);
  });
}

PyObject* call_handle(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  if (PyObject* const target = handle_of(self).target)
    return call_operator_object(target, args, flags, names);
  return guarded([&]() -> PyObject* {
    const RecursionGuard guard;
    const Arguments given = {args, PyVectorcall_NARGS(flags), names};
    const OperatorEntry* const entry = callable_of(self).entry;
    if (entry && !is_taken_over(given)) {
      if (Ref result = call_entry(*entry, given)) return result.release();
    }
    return call_slowly(self, given);
  });
}

// --- the types ----------------------------------------------------------------------------------

// Subclasses that Python code makes do not inherit the flag before Python 3.12.
void allow_vectorcall(PyTypeObject* type) {
  if (type->tp_call == PyVectorcall_Call) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
}

PyObject* operator_new(PyTypeObject* type, PyObject*, PyObject*) {
  allow_vectorcall(type);
  PyObject* const self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  callable_of(self).vectorcall = call_operator_object;
  new (&operator_of(self)) DefinedOperator();
  return self;
}
PyObject* handle_new(PyTypeObject* type, PyObject*, PyObject*) {
  allow_vectorcall(type);
  PyObject* const self = type->tp_alloc(type, 0);
  if (self) callable_of(self).vectorcall = call_handle;
  return self;
}

int operator_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const DefinedOperator& op = operator_of(self);
  for (const DefinedParameter& parameter : op.parameters) Py_VISIT(parameter.preset.get());
  for (const DefinedKernel& kernel : op.kernels) {
    Py_VISIT(kernel.function.get());
    Py_VISIT(kernel.recorder.get());
    Py_VISIT(kernel.setup.get());
  }
  return 0;
}
// Releasing an object may run Python code that calls the operator.
void forget_kernels(PyObject* self) {
  std::exchange(operator_of(self).kernels, std::array<DefinedKernel, kNumDeviceTypes>());
}
int operator_clear(PyObject* self) {
  forget_kernels(self);
  return 0;
}
void operator_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  operator_of(self).~DefinedOperator();
  type->tp_free(self);
  Py_DECREF(type);
}
int handle_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(handle_of(self).target);
  return 0;
}
int handle_clear(PyObject* self) {
  Py_CLEAR(handle_of(self).target);
  return 0;
}
void handle_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  handle_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- methods ------------------------------------------------------------------------------------

ValueKind kind_from(std::string_view text) {
  constexpr std::pair<std::string_view, ValueKind> kKinds[] = {
      {"Tensor", ValueKind::Tensor},   {"int", ValueKind::Integer},
      {"SymInt", ValueKind::Integer},  {"float", ValueKind::Real},
      {"complex", ValueKind::Complex}, {"bool", ValueKind::Boolean},
      {"str", ValueKind::Text},        {"Scalar", ValueKind::Number}};
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
  }
  return ValueKind::Other;
}

// "Tensor?[]" or "int[2]?", and the classes of the values of a type that has no kind.
ValueType type_from(std::string_view text, PyObject* classes) {
  ValueType type;
  type.optional = text.ends_with('?');
  if (type.optional) text.remove_suffix(1);
  type.is_list = text.ends_with(']');
  if (type.is_list) text = text.substr(0, text.rfind('['));
  type.optional_items = type.is_list && text.ends_with('?');
  if (type.optional_items) text.remove_suffix(1);
  type.kind = kind_from(text);
  type.classes = Ref::share(classes);
  return type;
}

// _describe(name, parameters, results): of each parameter (name, type, classes, keyword_only,
// is_written, default...), of each result (type, classes).
PyObject* describe(PyObject* self, PyObject* given) {
  return guarded([&]() -> PyObject* {
    const char* name;
    PyObject *parameters, *results;
    if (!PyArg_ParseTuple(given, "sO!O!", &name, &PyList_Type, &parameters, &PyList_Type, &results))
      return nullptr;
    DefinedOperator& op = operator_of(self);
    check(op.name.empty(), "_describe: expected to be called once, got ", name);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parameters); ++i) {
      PyObject *its_name, *classes, *preset = nullptr;
      const char* type;
      int keyword_only, is_written;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(parameters, i), "UsOpp|O", &its_name, &type, &classes,
                            &keyword_only, &is_written, &preset))
        return nullptr;
      Py_INCREF(its_name);
      PyUnicode_InternInPlace(&its_name);
      op.parameters.push_back({Ref(its_name), preset ? Ref::share(preset) : Ref(),
                               type_from(type, classes), keyword_only != 0, is_written != 0});
      if (!keyword_only) ++op.places;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results); ++i) {
      const char* type;
      PyObject* classes;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(results, i), "sO", &type, &classes)) return nullptr;
      op.results.push_back(type_from(type, classes));
    }
    op.name = name;
    return wrap_none();
  });
}

PyObject* forget(PyObject* self, PyObject*) {
  forget_kernels(self);
  Py_RETURN_NONE;
}

// _run_kernel(function, is_unaliased, values)
PyObject* run_kernel_of(PyObject* self, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *values;
    int is_unaliased;
    if (!PyArg_ParseTuple(given, "OpO!", &function, &is_unaliased, &PyList_Type, &values))
      return nullptr;
    const DefinedOperator& op = operator_of(self);
    const Ref kept = Ref::checked(PyList_AsTuple(values));
    check(PyTuple_GET_SIZE(kept.get()) == static_cast<Py_ssize_t>(op.parameters.size()), op.name,
          ": expected ", op.parameters.size(), " values, got ", PyTuple_GET_SIZE(kept.get()));
    return run_kernel(op, function, is_unaliased != 0, PySequence_Fast_ITEMS(kept.get())).release();
  });
}

// _call_entry(name): calls go to the operator of the dispatcher; "": to Python code.
PyObject* set_entry(PyObject* self, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const char* const text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    callable_of(self).entry = *text ? find_operator(text) : nullptr;
    return wrap_none();
  });
}

// _call_target(operator): calls go to the operator; None: to Python code.
PyObject* set_target(PyObject* self, PyObject* target) {
  return guarded([&]() -> PyObject* {
    const bool is_operator = PyObject_TypeCheck(target, operator_type);
    check_type(is_operator || target == Py_None, "_call_target: expected an operator, got ",
               Py_TYPE(target)->tp_name);
    Py_XSETREF(handle_of(self).target, is_operator ? Py_NewRef(target) : nullptr);
    return wrap_none();
  });
}

PyMethodDef operator_methods[] = {{"_describe", describe, METH_VARARGS, nullptr},
                                  {"_forget_kernels", forget, METH_NOARGS, nullptr},
                                  {"_run_kernel", run_kernel_of, METH_VARARGS, nullptr},
                                  {"_call_entry", set_entry, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyMethodDef handle_methods[] = {{"_call_target", set_target, METH_O, nullptr},
                                {"_call_entry", set_entry, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

PyTypeObject* make_type(PyObject* module, const char* name, size_t size, PyType_Slot* slots) {
  constexpr unsigned flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Spec spec = {name, static_cast<int>(size), 0, flags, slots};
  Ref type = Ref::checked(PyType_FromSpec(&spec));
  checked(PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type.get()));
  return reinterpret_cast<PyTypeObject*>(type.release());
}

}  // namespace

void add_operator_call(PyObject* module) {
  PyType_Slot of_operator[] = {
      {Py_tp_call, slot(PyVectorcall_Call)},   {Py_tp_new, slot(operator_new)},
      {Py_tp_dealloc, slot(operator_dealloc)}, {Py_tp_traverse, slot(operator_traverse)},
      {Py_tp_clear, slot(operator_clear)},     {Py_tp_members, members},
      {Py_tp_methods, operator_methods},       {0, nullptr}};
  operator_type =
      make_type(module, "flambeau._C._DefinedOperator", sizeof(OperatorObject), of_operator);
  PyType_Slot of_handle[] = {
      {Py_tp_call, slot(PyVectorcall_Call)}, {Py_tp_new, slot(handle_new)},
      {Py_tp_dealloc, slot(handle_dealloc)}, {Py_tp_traverse, slot(handle_traverse)},
      {Py_tp_clear, slot(handle_clear)},     {Py_tp_members, members},
      {Py_tp_methods, handle_methods},       {0, nullptr}};
  make_type(module, "flambeau._C._OperatorHandle", sizeof(HandleObject), of_handle);
}

}  // namespace flambeau::python
