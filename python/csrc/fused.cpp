// Fused groups in Python: _C._FusedRecorder records, _C._FusedGroup runs.
#include "aten/cpu/fused.h"

#include <Python.h>
#include <structmember.h>

#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/operator_traits.h"
#include "python/csrc/fused.h"
#include "python/csrc/generated.h"

namespace flambeau::python {
namespace {

struct GroupObject {
  PyObject_HEAD std::shared_ptr<FusedGroup> group;
  vectorcallfunc vectorcall;
};
struct RecorderObject {
  PyObject_HEAD std::unique_ptr<FusedRecorder> recorder;
  FusedRecorder* outer;
  bool is_entered;
};
PyTypeObject* group_type;
PyTypeObject* recorder_type;

GroupObject* group_of(PyObject* o) { return reinterpret_cast<GroupObject*>(o); }
RecorderObject* recorder_of(PyObject* o) { return reinterpret_cast<RecorderObject*>(o); }

std::vector<Tensor> tensors_from(PyObject* list, const char* who) {
  const Ref items = Ref::checked(PySequence_Fast(list, "expected a list of tensors"));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    check_type(is_tensor(item), who, ": expected a list of tensors, got ", Py_TYPE(item)->tp_name);
    tensors.push_back(tensor_of(item));
  }
  return tensors;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    check_type(!kwnames || PyTuple_GET_SIZE(kwnames) == 0,
               "_FusedGroup: expected tensors, got keyword arguments");
    std::vector<Tensor> inputs;
    inputs.reserve(static_cast<size_t>(count));
    int64_t most = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      check_type(is_tensor(args[i]), "_FusedGroup: expected tensors, got ",
                 Py_TYPE(args[i])->tp_name);
      inputs.push_back(tensor_of(args[i]));
      most = std::max(most, inputs.back().numel());
    }
    std::vector<Tensor> outputs;
    {
      const WithoutGil released(most > kReleaseGilAbove);
      outputs = group_of(self)->group->run(inputs);
    }
    Ref list = Ref::checked(PyList_New(static_cast<Py_ssize_t>(outputs.size())));
    for (size_t i = 0; i < outputs.size(); ++i)
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), wrap(std::move(outputs[i])));
    return list.release();
  });
}

PyObject* describe(PyObject* self, PyObject*) {
  return guarded([&] {
    const std::string text = group_of(self)->group->describe();
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

void free_group(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&group_of(self)->group);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- the recorder ------------------------------------------------------------------------------

PyObject* new_recorder(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* list;
    const char* names[] = {"inputs", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:_FusedRecorder", const_cast<char**>(names),
                                     &list))
      return nullptr;
    auto recorder = std::make_unique<FusedRecorder>(tensors_from(list, "_FusedRecorder"));
    Ref made = Ref::checked(type->tp_alloc(type, 0));
    RecorderObject* object = recorder_of(made.get());
    std::construct_at(&object->recorder, std::move(recorder));
    return made.release();
  });
}

void free_recorder(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  // A thread that never left its recorder goes on using it.
  if (recorder_of(self)->is_entered) static_cast<void>(recorder_of(self)->recorder.release());
  std::destroy_at(&recorder_of(self)->recorder);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* enter(PyObject* self, PyObject*) {
  return guarded([&] {
    RecorderObject* object = recorder_of(self);
    check(!object->is_entered,
          "_FusedRecorder: expected a recorder that is not in force, got one that is");
    object->outer = fused_recorder;
    object->is_entered = true;
    fused_recorder = object->recorder.get();
    return Py_NewRef(self);
  });
}

PyObject* leave(PyObject* self, PyObject*) {
  return guarded([&] {
    RecorderObject* object = recorder_of(self);
    check(object->is_entered && fused_recorder == object->recorder.get(),
          "_FusedRecorder: expected the innermost recorder of this thread, got another one");
    fused_recorder = object->outer;
    object->is_entered = false;
    return Py_NewRef(Py_None);
  });
}

PyObject* make_group(PyObject* self, PyObject* outputs) {
  return guarded([&] {
    auto group = recorder_of(self)->recorder->group(tensors_from(outputs, "group"));
    Ref made = Ref::checked(group_type->tp_alloc(group_type, 0));
    std::construct_at(&group_of(made.get())->group, std::move(group));
    group_of(made.get())->vectorcall = call;
    return made.release();
  });
}

PyObject* steps(PyObject* self, void*) {
  return PyLong_FromSize_t(recorder_of(self)->recorder->num_steps());
}

// _operator_facts("add.Tensor"): (is pointwise, draws random numbers, writes unseen); None for an
// unknown operator.
PyObject* operator_facts(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text) return nullptr;
    const OperatorEntry* entry = find_operator({text, static_cast<size_t>(size)});
    if (!entry || !entry->traits) return Py_NewRef(Py_None);
    bool is_pointwise = false;
    for (const BatchRule& rule : entry->traits->rules)
      is_pointwise |= rule.method == BatchMethod::Pointwise;
    const auto flag = [](bool value) { return value ? Py_True : Py_False; };
    return Py_BuildValue("(OOO)", flag(is_pointwise), flag(entry->traits->is_random),
                         flag(entry->traits->has_effect));
  });
}

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

PyMemberDef group_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GroupObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef group_methods[] = {{"describe", describe, METH_NOARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
PyMethodDef recorder_methods[] = {{"__enter__", enter, METH_NOARGS, nullptr},
                                  {"__exit__", leave, METH_VARARGS, nullptr},
                                  {"group", make_group, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyGetSetDef recorder_fields[] = {{"steps", steps, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef functions[] = {{"_operator_facts", operator_facts, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

PyTypeObject* type_from(PyType_Spec& spec) {
  return reinterpret_cast<PyTypeObject*>(Ref::checked(PyType_FromSpec(&spec)).release());
}

}  // namespace

void add_fused(PyObject* module) {
  PyType_Slot group_slots[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                               {Py_tp_dealloc, slot(free_group)},
                               {Py_tp_members, group_members},
                               {Py_tp_methods, group_methods},
                               {0, nullptr}};
  PyType_Spec group = {
      "flambeau._C._FusedGroup", sizeof(GroupObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
      group_slots};
  PyType_Slot recorder_slots[] = {{Py_tp_new, slot(new_recorder)},
                                  {Py_tp_dealloc, slot(free_recorder)},
                                  {Py_tp_methods, recorder_methods},
                                  {Py_tp_getset, recorder_fields},
                                  {0, nullptr}};
  PyType_Spec recorder = {"flambeau._C._FusedRecorder", sizeof(RecorderObject), 0,
                          Py_TPFLAGS_DEFAULT, recorder_slots};
  group_type = type_from(group);
  recorder_type = type_from(recorder);
  checked(
      PyModule_AddObjectRef(module, "_FusedRecorder", reinterpret_cast<PyObject*>(recorder_type)));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
