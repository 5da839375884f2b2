// _C.TensorBase. Object and TensorImpl are tied one to one: the object owns the impl, the impl knows its
// object. When the last Python reference to an object that carries state (a subclass, attributes) goes
// while C++ still holds the tensor, the object is kept alive by the impl until it is asked for again.
#include "python/csrc/tensor_type.h"

#include <structmember.h>

#include <vector>

#include "python/csrc/arg_parser.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {

PyTypeObject* tensor_base_type;
PyTypeObject* tensor_type;

namespace {

TensorObject* object_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }

PyObject* make_object(PyTypeObject* type, Tensor tensor) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw PythonError();
  PyObjectSlot& slot = tensor.impl()->py_slot();
  slot.object = self;
  slot.owned_by_impl = false;
  new (&object_of(self)->tensor) Tensor(std::move(tensor));
  return self;
}

bool has_attributes(PyObject* self) {
  PyObject** dict = _PyObject_GetDictPtr(self);
  if (dict && *dict) return PyDict_GET_SIZE(*dict) > 0;
  Ref attributes(PyObject_GenericGetDict(self, nullptr));
  if (!attributes) {
    PyErr_Clear();
    return false;
  }
  return PyDict_GET_SIZE(attributes.get()) > 0;
}

// Before the object dies: hand it to the impl if it carries what the impl alone cannot give back.
void tensor_finalize(PyObject* self) {
  Tensor& tensor = object_of(self)->tensor;
  if (!tensor.defined() || tensor.impl()->use_count() <= 1) return;
  const bool plain = Py_TYPE(self) == tensor_type && !object_of(self)->weak_references;
  if (plain && !has_attributes(self)) return;
  tensor.impl()->py_slot().owned_by_impl = true;
  Py_INCREF(self);
  tensor.reset();  // the impl owns the object now, not the other way round
}

void release_object(void* object) {
  if (!Py_IsInitialized()) return;
  const WithGil gil;
  Py_DECREF(static_cast<PyObject*>(object));
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (Py_TYPE(self) == tensor_base_type && PyObject_CallFinalizerFromDealloc(self) < 0) return;
  PyObject_GC_UnTrack(self);
  if (object_of(self)->weak_references) PyObject_ClearWeakRefs(self);
  Tensor& tensor = object_of(self)->tensor;
  if (tensor.defined() && tensor.impl()->py_slot().object == self) tensor.impl()->py_slot() = {};
  // A large tensor's memory goes back to the allocator without the GIL being needed; freeing is quick.
  tensor.~Tensor();
  type->tp_free(self);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

int tensor_clear(PyObject*) { return 0; }

PyObject* base_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    // Tensor(data): shares a tensor as this class; anything else is the factory's work (in Python).
    PyObject* source = nullptr;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "O", &source) || !is_tensor(source)) {
      PyErr_Format(PyExc_TypeError, "%s(): expected one tensor; make tensors with flambeau.tensor(data)", type->tp_name);
      return nullptr;
    }
    const Tensor& tensor = tensor_of(source);
    Tensor alias(make_intrusive<TensorImpl>(tensor.storage(), tensor.dtype(), tensor.device()));
    alias.impl()->shallow_copy_from(*tensor.impl());
    return wrap_as(type, std::move(alias));
  });
}

std::vector<PyMethodDef> methods;
std::vector<PyGetSetDef> getset;

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

}  // namespace

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  PyObjectSlot& slot = tensor.impl()->py_slot();
  if (slot.object) {
    PyObject* object = static_cast<PyObject*>(slot.object);
    if (!slot.owned_by_impl) return Py_NewRef(object);
    slot.owned_by_impl = false;  // its reference passes to the caller
    object_of(object)->tensor = std::move(tensor);
    return object;
  }
  return make_object(tensor_type, std::move(tensor));
}

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) { return make_object(type, std::move(tensor)); }

void add_tensor_methods(PyMethodDef* table) {
  for (; table->ml_name; ++table) methods.push_back(*table);
}
void add_tensor_getset(PyGetSetDef* table) {
  for (; table->name; ++table) getset.push_back(*table);
}

void make_tensor_type(PyObject* module) {
  release_py_object = &release_object;
  add_tensor_methods(handwritten_tensor_methods);
  add_tensor_methods(autograd_methods);
  add_tensor_methods(generated_tensor_methods);
  add_tensor_getset(handwritten_tensor_getset);
  add_tensor_getset(autograd_getset);
  methods.push_back({nullptr, nullptr, 0, nullptr});
  getset.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, reinterpret_cast<void*>(base_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_finalize, reinterpret_cast<void*>(tensor_finalize)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, getset.data()},
      {Py_tp_members, members},
  };
  for (PyType_Slot* table : {generated_tensor_slots, handwritten_tensor_slots}) {
    for (; table->slot; ++table) slots.push_back(*table);
  }
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"flambeau._C.TensorBase", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  PyObject* type = Ref::checked(PyType_FromSpec(&spec)).release();
  tensor_base_type = reinterpret_cast<PyTypeObject*>(type);
  tensor_type = tensor_base_type;  // until the package sets its own class
  checked(PyModule_AddObjectRef(module, "TensorBase", type));
}

}  // namespace flambeau::python
