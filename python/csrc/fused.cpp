#include "python/csrc/fused.h"

#include <structmember.h>

#include <cstring>

#include "aten/cpu/fused.h"
#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/operator_traits.h"
#include "python/csrc/autograd.h"
#include "python/csrc/generated.h"
#include "python/csrc/tensor_type.h"

namespace flambeau::python {
namespace {

struct RecorderObject {
  PyObject_HEAD std::unique_ptr<FusedRecorder> recorder;
  bool grad_enabled;  // before it was entered
};
struct GroupObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<const FusedGroup> group;
};
PyTypeObject* group_type;

RecorderObject& recorder_of(PyObject* o) { return *reinterpret_cast<RecorderObject*>(o); }
GroupObject& group_of(PyObject* o) { return *reinterpret_cast<GroupObject*>(o); }

const Tensor& checked_tensor(const char* what, PyObject* o) {
  check_type(is_tensor(o), what, ": expected tensors, got ", Py_TYPE(o)->tp_name);
  return tensor_of(o);
}

// The tensors of a list or tuple.
SmallVector<const Tensor*, 16> tensors_in(const char* what, PyObject* list) {
  check_type(PyList_Check(list) || PyTuple_Check(list), what, ": expected a list of tensors, got ",
             Py_TYPE(list)->tp_name);
  SmallVector<const Tensor*, 16> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i)
    tensors.push_back(&checked_tensor(what, PySequence_Fast_GET_ITEM(list, i)));
  return tensors;
}

// --- groups --------------------------------------------------------------------------------------

Ref list_of(std::vector<Tensor> tensors) {
  Ref list = Ref::checked(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Ref tensor = Ref::checked(wrap(std::move(tensors[i])));
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(tensor.get()));
  }
  return list;
}

// body(inputs) without the GIL where it takes long.
template <typename Body>
PyObject* run_group(PyObject* const* values, Py_ssize_t count, const Body& body) {
  SmallVector<const Tensor*, 16> inputs;
  int64_t largest = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Tensor& t = checked_tensor("_FusedGroup", values[i]);
    if (t.defined()) largest = std::max(largest, t.numel());
    inputs.push_back(&t);
  }
  std::vector<Tensor> results;
  {
    const WithoutGil released(largest > kReleaseGilAbove);
    results = body(ArrayRef<const Tensor*>(inputs.data(), inputs.size()));
  }
  return list_of(std::move(results)).release();
}

PyObject* call_group(PyObject* self, PyObject* const* values, size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    check_type(!names || PyTuple_GET_SIZE(names) == 0,
               "_FusedGroup: expected no keyword arguments, got some");
    const FusedGroup& group = *group_of(self).group;
    return run_group(values, PyVectorcall_NARGS(flags),
                     [&](ArrayRef<const Tensor*> inputs) { return group.run(inputs); });
  });
}

// into([output or None, ...], *inputs): as a call, with outputs in given tensors.
PyObject* call_group_into(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count > 0 && PyList_Check(values[0]),
               "_FusedGroup.into: expected a list of tensors and None, got ",
               count > 0 ? Py_TYPE(values[0])->tp_name : "nothing");
    const Ref list = Ref::checked(PyList_AsTuple(values[0]));  // other threads may change the list
    SmallVector<const Tensor*, 16> given;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* const item = PyTuple_GET_ITEM(list.get(), i);
      given.push_back(item == Py_None ? nullptr : &checked_tensor("_FusedGroup.into", item));
    }
    const FusedGroup& group = *group_of(self).group;
    return run_group(values + 1, count - 1, [&](ArrayRef<const Tensor*> inputs) {
      return group.run_into(ArrayRef<const Tensor*>(given.data(), given.size()), inputs);
    });
  });
}

PyObject* describe(PyObject* self, PyObject*) {
  return guarded([&] {
    const std::string text = group_of(self).group->describe();
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

Ref list_of(const std::vector<std::string>& texts) {
  Ref list = Ref::checked(PyList_New(0));
  for (const std::string& text : texts) {
    const Ref item = Ref::checked(
        PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    checked(PyList_Append(list.get(), item.get()));
  }
  return list;
}

// texts(*inputs): what the kernels of the group's parts are generated from.
PyObject* texts_of_group(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    SmallVector<const Tensor*, 16> inputs;
    for (Py_ssize_t i = 0; i < count; ++i)
      inputs.push_back(&checked_tensor("_FusedGroup.texts", values[i]));
    const ArrayRef<const Tensor*> all(inputs.data(), inputs.size());
    return list_of(group_of(self).group->texts(all)).release();
  });
}

// parts(*inputs): [(text, arrays), ...], where an array is the place of an input, a constant
// tensor, or None, and the bytes of numbers.
PyObject* parts_of_group(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    SmallVector<const Tensor*, 16> inputs;
    for (Py_ssize_t i = 0; i < count; ++i)
      inputs.push_back(&checked_tensor("_FusedGroup.parts", values[i]));
    const auto [parts, slots] =
        group_of(self).group->parts(ArrayRef<const Tensor*>(inputs.data(), inputs.size()));
    const Ref list = Ref::checked(PyList_New(0));
    for (const FusedGroup::Part& part : parts) {
      const Ref arrays = Ref::checked(PyList_New(0));
      for (size_t a = 0; a < part.inputs.size(); ++a) {
        const Ref array = Ref::checked(part.constants[a].defined() ? wrap(part.constants[a])
                                       : part.inputs[a] < 0 ? wrap_none()
                                                            : PyLong_FromLong(part.inputs[a]));
        checked(PyList_Append(arrays.get(), array.get()));
      }
      const Ref item = Ref::checked(Py_BuildValue("(sO)", part.text.c_str(), arrays.get()));
      checked(PyList_Append(list.get(), item.get()));
    }
    const Ref bytes = Ref::checked(
        PyBytes_FromStringAndSize(slots.data(), static_cast<Py_ssize_t>(slots.size())));
    return Py_BuildValue("(OO)", list.get(), bytes.get());
  });
}

PyObject* choices_of_group(PyObject* self, PyObject*) {
  return guarded([&] { return list_of(group_of(self).group->choices()).release(); });
}

// install(text, address, is_measured): the kernel of parts with this text.
PyObject* install_kernel(PyObject* self, PyObject* given) {
  return guarded([&]() -> PyObject* {
    const char* text;
    unsigned long long address;
    int is_measured;
    if (!PyArg_ParseTuple(given, "sKp:install", &text, &address, &is_measured)) return nullptr;
    const auto kernel = reinterpret_cast<FusedKernel>(static_cast<uintptr_t>(address));
    group_of(self).group->install(text, {kernel, is_measured != 0});
    return wrap_none();
  });
}

void group_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  std::destroy_at(&group_of(self).group);
  type->tp_free(self);
  Py_DECREF(type);
}

Ref make_group(std::shared_ptr<const FusedGroup> group) {
  Ref self = Ref::checked(group_type->tp_alloc(group_type, 0));
  std::construct_at(&group_of(self.get()).group, std::move(group));
  group_of(self.get()).vectorcall = call_group;
  return self;
}

PyMethodDef group_methods[] = {{"describe", describe, METH_NOARGS, nullptr},
                               {"into", as_cfunction(call_group_into), METH_FASTCALL, nullptr},
                               {"texts", as_cfunction(texts_of_group), METH_FASTCALL, nullptr},
                               {"parts", as_cfunction(parts_of_group), METH_FASTCALL, nullptr},
                               {"choices", choices_of_group, METH_NOARGS, nullptr},
                               {"install", install_kernel, METH_VARARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
PyMemberDef group_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GroupObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

// --- the recorder --------------------------------------------------------------------------------

PyObject* recorder_new(PyTypeObject* type, PyObject* given, PyObject* names) {
  return guarded([&]() -> PyObject* {
    static const char* parameters[] = {"inputs", nullptr};
    PyObject* list;
    if (!PyArg_ParseTupleAndKeywords(given, names, "O:_FusedRecorder",
                                     const_cast<char**>(parameters), &list))
      return nullptr;
    std::vector<Tensor> inputs;
    for (const Tensor* t : tensors_in("_FusedRecorder", list)) inputs.push_back(*t);
    auto recorder = std::make_unique<FusedRecorder>(std::move(inputs));
    Ref self = Ref::checked(type->tp_alloc(type, 0));
    std::construct_at(&recorder_of(self.get()).recorder, std::move(recorder));
    return self.release();
  });
}

void recorder_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  std::destroy_at(&recorder_of(self).recorder);
  type->tp_free(self);
  Py_DECREF(type);
}

// The thread holds the recorder until it leaves: a block that is never left leaks it.
PyObject* enter(PyObject* self, PyObject*) {
  return guarded([&] {
    recorder_of(self).recorder->start();
    recorder_of(self).grad_enabled = thread_state.grad_enabled;
    thread_state.grad_enabled = false;
    Py_INCREF(self);
    return Py_NewRef(self);
  });
}

PyObject* leave(PyObject* self, PyObject*) {
  return guarded([&] {
    recorder_of(self).recorder->stop();
    thread_state.grad_enabled = recorder_of(self).grad_enabled;
    Py_DECREF(self);
    return wrap_none();
  });
}

PyObject* count_steps(PyObject* self, void*) {
  return PyLong_FromSize_t(recorder_of(self).recorder->steps());
}

PyObject* close_group(PyObject* self, PyObject* outputs) {
  return guarded([&] {
    const auto tensors = tensors_in("_FusedRecorder.group", outputs);
    const ArrayRef<const Tensor*> all(tensors.data(), tensors.size());
    return make_group(recorder_of(self).recorder->group(all)).release();
  });
}

PyMethodDef recorder_methods[] = {{"__enter__", enter, METH_NOARGS, nullptr},
                                  {"__exit__", leave, METH_VARARGS, nullptr},
                                  {"group", close_group, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyGetSetDef recorder_getset[] = {{"steps", count_steps, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- operators -----------------------------------------------------------------------------------

// Whether the overload gives a fresh tensor that its CPU function computes by one pointwise
// descriptor.
bool gives_pointwise_result(const OperatorTraits& traits) {
  for (const ArgumentTraits& argument : traits.arguments) {
    if (argument.is_mutable) return false;
  }
  return traits.rules.size() == 1 && traits.rules[0].method == BatchMethod::Pointwise;
}

// _operator_facts("add.Tensor"): (is pointwise, draws random numbers, writes to an argument though
// its schema does not say so, reads shapes or values of results from data, name of the operator
// that has the same values, writes nothing and makes no view, or None); None for an unknown
// operator.
PyObject* operator_facts(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(name), "_operator_facts: expected a str, got ",
               Py_TYPE(name)->tp_name);
    const char* const text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const OperatorEntry* const op = find_operator(text);
    if (!op || !op->traits) return wrap_none();
    const auto flag = [](bool value) { return value ? Py_True : Py_False; };
    const OperatorEntry* const functional = op->traits->functional;
    return Py_BuildValue("(OOOOz)", flag(gives_pointwise_result(*op->traits)),
                         flag(op->traits->is_random), flag(op->traits->has_effect),
                         flag(op->traits->is_dynamic), functional ? functional->name : nullptr);
  });
}

// How a slice of leading dimensions of a call is made of an argument; nullptr: it cannot be made.
const char* slice_role(BatchPlace place) {
  static const char* const dims[] = {"dim", "dims", "dims or all", "order", "new dim", "new dims"};
  switch (place.role) {
    case BatchRole::Plain:
      return "";
    case BatchRole::Operand:
    case BatchRole::Mask:
      return "operand";
    case BatchRole::Front:
      return "front";
    case BatchRole::Size:
      return "sizes";
    case BatchRole::Dim:
      return dims[place.at];
    default:
      return nullptr;
  }
}

// The role of each argument, empty where a rule makes no slices.
std::vector<const char*> slice_roles(const OperatorTraits& traits, const BatchRule& rule) {
  std::vector<const char*> roles;
  if (rule.method != BatchMethod::Pointwise && rule.method != BatchMethod::Place) return roles;
  for (const BatchPlace& result : rule.results) {
    if (result.role != BatchRole::Front) return roles;
  }
  for (size_t i = 0; i < traits.arguments.size(); ++i) {
    const char* const role =
        slice_role(i < rule.arguments.size() ? rule.arguments[i] : BatchPlace());
    if (!role) return {};
    roles.push_back(role);
  }
  return roles;
}

// _operator_slices("sum.dim_IntList"): for each batching rule whose results have the batch in front
// a tuple with the role of each argument; an empty tuple for operators without such rules.
PyObject* operator_slices(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(name), "_operator_slices: expected a str, got ",
               Py_TYPE(name)->tp_name);
    const char* const text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const OperatorEntry* const op = find_operator(text);
    const Ref found = Ref::checked(PyList_New(0));
    for (size_t r = 0; op && op->traits && r < op->traits->rules.size(); ++r) {
      const std::vector<const char*> roles = slice_roles(*op->traits, op->traits->rules[r]);
      if (roles.empty()) continue;
      const Ref row = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(roles.size())));
      for (size_t i = 0; i < roles.size(); ++i) {
        Ref role = Ref::checked(PyUnicode_InternFromString(roles[i]));
        PyTuple_SET_ITEM(row.get(), static_cast<Py_ssize_t>(i), role.release());
      }
      checked(PyList_Append(found.get(), row.get()));
    }
    return PyList_AsTuple(found.get());
  });
}

PyMethodDef functions[] = {{"_operator_facts", operator_facts, METH_O, nullptr},
                           {"_operator_slices", operator_slices, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

PyTypeObject* make_type(PyObject* module, PyType_Spec spec) {
  Ref type = Ref::checked(PyType_FromSpec(&spec));
  checked(PyModule_AddObjectRef(module, std::strrchr(spec.name, '.') + 1, type.get()));
  return reinterpret_cast<PyTypeObject*>(type.release());
}

}  // namespace

void add_fused(PyObject* module) {
  PyType_Slot of_recorder[] = {{Py_tp_new, slot(recorder_new)},
                               {Py_tp_dealloc, slot(recorder_dealloc)},
                               {Py_tp_methods, recorder_methods},
                               {Py_tp_getset, recorder_getset},
                               {0, nullptr}};
  make_type(module, {"flambeau._C._FusedRecorder", sizeof(RecorderObject), 0, Py_TPFLAGS_DEFAULT,
                     of_recorder});
  PyType_Slot of_group[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                            {Py_tp_dealloc, slot(group_dealloc)},
                            {Py_tp_members, group_members},
                            {Py_tp_methods, group_methods},
                            {0, nullptr}};
  constexpr unsigned kOfGroup =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  group_type =
      make_type(module, {"flambeau._C._FusedGroup", sizeof(GroupObject), 0, kOfGroup, of_group});
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
