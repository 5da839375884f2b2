// flambeau.Tensor. Object and TensorImpl are tied one to one: the object owns the impl, the impl
// knows its object. When the last Python reference to an object that carries state (a subclass,
// attributes) goes while C++ still holds the tensor, the object is kept alive by the impl until it
// is asked for again.
#include "python/csrc/tensor_type.h"

#include <structmember.h>

#include <vector>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/cycles.h"
#include "python/csrc/data.h"
#include "python/csrc/generated.h"
#include "python/csrc/numpy_types.h"
#include "python/csrc/operator_texts.h"
#include "python/csrc/torch_dispatch.h"
#include "python/csrc/torch_function.h"
#include "python/csrc/type_docs.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {

PyTypeObject* tensor_type;

namespace {

TensorObject* object_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }

// Memory of dead tensors of the exact type, ready for the next ones. The GIL guards it.
constexpr int kMaxFree = 64;
PyObject* free_objects[kMaxFree];
int free_count = 0;

void tensor_dealloc(PyObject* self);

// Tensors of the exact type are known to the collector of cycles only once they have attributes,
// hooks or a graph behind them.
PyObject* allocate_plain() {
  TensorObject* self;
  if (free_count > 0) {
    self = object_of(free_objects[--free_count]);
    PyObject_Init(reinterpret_cast<PyObject*>(self), tensor_type);
  } else {
    self = PyObject_GC_New(TensorObject, tensor_type);
    if (!self) throw PythonError();
  }
  self->weak_references = nullptr;
  self->attributes = nullptr;
  self->questions = 0;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* allocate_as(PyTypeObject* type) {
  // Python's own deallocator for subclasses could not give the object to its impl.
  type->tp_dealloc = tensor_dealloc;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw PythonError();
  return self;
}

PyObject* make_object(PyTypeObject* type, Tensor tensor) {
  PyObject* self = type == tensor_type ? allocate_plain() : allocate_as(type);
  PyObjectSlot& slot = tensor.impl()->py_slot();
  slot.object = self;
  slot.owned_by_impl = false;
  new (&object_of(self)->tensor) Tensor(std::move(tensor));
  if (type == tensor_type && object_of(self)->tensor.keys().has(DispatchKey::Autograd)) track(self);
  return self;
}

// Whether the impl owns the object, whose `tensor` then points to the impl without a count.
bool is_owned_by_impl(const TensorObject* object) {
  return object->tensor.defined() && object->tensor.impl()->py_slot().owned_by_impl;
}

// Sets the tensor of an object without releasing the previous one, which has no count.
void set_tensor(PyObject* self, Tensor tensor) {
  new (&object_of(self)->tensor) Tensor(std::move(tensor));
}

// Called with no reference left. Hands an object that carries what the impl alone cannot give back
// (a class, attributes, weak references) to an impl that lives on.
bool handed_to_impl(PyObject* self) {
  TensorObject* object = object_of(self);
  if (!object->tensor.defined() || object->tensor.impl()->use_count() <= 1) return false;
  const bool has_attributes = object->attributes && PyDict_GET_SIZE(object->attributes) > 0;
  if (Py_TYPE(self) == tensor_type && !object->weak_references && !has_attributes) return false;
  c10::TensorImpl* const impl = object->tensor.impl();
  impl->py_slot().owned_by_impl = true;
  Py_SET_REFCNT(self, 1);
  const Tensor let_go = std::move(object->tensor);
  // The object stays usable: gc.get_objects and weak references still return it.
  set_tensor(self, Tensor(c10::intrusive_ptr<c10::TensorImpl>::adopt(impl)));
  return true;
}

// Makes an object that is still referenced an empty tensor when its impl is destroyed.
void outlive_impl(PyObject* self) {
  try {
    set_tensor(self, empty_tensor({0}, default_dtype()));
    object_of(self)->tensor.impl()->py_slot().object = self;
  } catch (...) {  // no memory
    set_tensor(self, Tensor());
  }
}

void release_object(void* object) {
  if (!Py_IsInitialized()) return;
  const WithGil gil;
  PyObject* const self = static_cast<PyObject*>(object);
  set_tensor(self, Tensor());
  if (Py_REFCNT(self) > 1) outlive_impl(self);
  Py_DECREF(self);
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (handed_to_impl(self)) return;
  if (type != tensor_type && type->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0)
    return;
  PyObject_GC_UnTrack(self);
  TensorObject* object = object_of(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->attributes);
  Tensor& tensor = object->tensor;
  if (tensor.defined() && tensor.impl()->py_slot().object == self) tensor.impl()->py_slot() = {};
  tensor.~Tensor();
  if (type == tensor_type && free_count < kMaxFree) {
    free_objects[free_count++] = self;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object_of(self)->attributes);
  if (is_owned_by_impl(object_of(self))) return 0;
  return OwnedObjects(visit, arg).show(object_of(self)->tensor);
}

int tensor_clear(PyObject* self) {
  Py_CLEAR(object_of(self)->attributes);
  const Tensor& tensor = object_of(self)->tensor;
  if (!is_owned_by_impl(object_of(self)) && is_sole_owner(tensor))
    tensor.impl()->set_autograd_meta(nullptr);
  return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  track(self);
  // Python takes classes with different deallocators for incompatible; a class has ours from its
  // first instance on, and this may be the first.
  if (value && PyType_Check(value) && PyUnicode_CompareWithASCIIString(name, "__class__") == 0 &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), tensor_type)) {
    reinterpret_cast<PyTypeObject*>(value)->tp_dealloc = tensor_dealloc;
  }
  return PyObject_GenericSetAttr(self, name, value);
}
PyObject* get_attributes(PyObject* self, void*) {
  track(self);
  return PyObject_GenericGetDict(self, nullptr);
}
int set_attributes(PyObject* self, PyObject* value, void*) {
  track(self);
  return PyObject_GenericSetDict(self, value, nullptr);
}
PyGetSetDef type_getset[] = {{"__dict__", get_attributes, set_attributes, nullptr, nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};

bool is_size(PyObject* o) {
  return PyLong_CheckExact(o) || (PyIndex_Check(o) && !is_tensor(o) && !PySequence_Check(o));
}

// Tensor(2, 3): uninitialised sizes; Tensor(data): a float copy; Tensor(tensor): shares it.
Tensor construct(PyObject* args) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  PyObject* first = n ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (n == 1 && is_tensor(first)) return alias_with_history(tensor_of(first));
  DimVector sizes;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* size = PyTuple_GET_ITEM(args, i);
    if (!is_size(size)) {
      check_type(n == 1, "Tensor(): expected sizes or one sequence of data, got ", n,
                 " arguments; use flambeau.tensor(data)");
      if (size_type && PyObject_TypeCheck(first, size_type)) return construct(first);
      check_type(PySequence_Check(first), "new(): expected a sequence of data, got ",
                 Py_TYPE(first)->tp_name);
      return adopted_by_mode(tensor_from_data(first, default_dtype(), DeviceType::CPU),
                             DeviceType::CPU);
    }
    sizes.push_back(integer_from(size));
  }
  if (n == 0) sizes.push_back(0);
  numel_of(sizes);
  return empty_tensor(sizes, default_dtype());
}
PyObject* base_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    check_type(!kwargs || PyDict_GET_SIZE(kwargs) == 0 || type != tensor_type,
               "Tensor(): expected no keyword arguments, got some");
    return wrap_as(type, construct(args));
  });
}

// --- operands that are not tensors ------------------------------------------------------------
//
// The generated slots know tensors and numbers. All else answers for itself, as NumPy's arrays do
// by __array_wrap__, with the exceptions that PyTorch makes.

richcmpfunc compare_tensors;
binaryfunc divide_tensors;
binaryfunc multiply_tensors;

bool is_unanswered(PyObject* result) { return result == Py_NotImplemented; }

// An array that can be a tensor is compared as one.
PyObject* compare(PyObject* a, PyObject* b, int op) {
  PyObject* result = compare_tensors(a, b, op);
  if (!result || !is_unanswered(result) || op != Py_EQ || !is_ndarray(b)) return result;
  const Ref tensor = Ref(guarded([&] { return wrap(tensor_over_array(b)); }));
  if (!tensor && !PyErr_ExceptionMatches(PyExc_TypeError)) {
    Py_DECREF(result);
    return nullptr;
  }
  if (!tensor) {
    PyErr_Clear();
    return result;
  }
  Py_DECREF(result);
  return compare_tensors(a, tensor.get(), op);
}

// other / tensor is tensor.reciprocal() * other, which rounds twice, as in PyTorch, and asks
// `other` once more.
PyObject* divide(PyObject* a, PyObject* b) {
  const bool taken = mode_in_force() || any_overrides(&b, 1);
  PyObject* result = is_number(a) && !taken ? Py_NewRef(Py_NotImplemented) : divide_tensors(a, b);
  if (!result || !is_unanswered(result) || is_tensor(a) || taken) return result;
  const Ref inverse = Ref(PyObject_CallMethod(b, "reciprocal", nullptr));
  PyObject* product = inverse ? PyNumber_Multiply(inverse.get(), a) : nullptr;
  if (!product && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    return result;
  }
  Py_DECREF(result);
  return product;
}

// Numbers have no product of matrices.
PyObject* multiply_matrices(PyObject* a, PyObject* b) {
  if (is_number(a) || is_number(b)) Py_RETURN_NOTIMPLEMENTED;
  return multiply_tensors(a, b);
}

// Takes the place of a generated slot, which it calls.
PyType_Slot replaced(PyType_Slot slot) {
  if (slot.slot == Py_nb_matrix_multiply) {
    multiply_tensors = reinterpret_cast<binaryfunc>(slot.pfunc);
    slot.pfunc = reinterpret_cast<void*>(multiply_matrices);
  } else if (slot.slot == Py_tp_richcompare) {
    compare_tensors = reinterpret_cast<richcmpfunc>(slot.pfunc);
    slot.pfunc = reinterpret_cast<void*>(compare);
  } else if (slot.slot == Py_nb_true_divide) {
    divide_tensors = reinterpret_cast<binaryfunc>(slot.pfunc);
    slot.pfunc = reinterpret_cast<void*>(divide);
  }
  return slot;
}

std::vector<PyMethodDef> methods;
std::vector<PyGetSetDef> getset;

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

void track(PyObject* tensor) {
  if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  PyObjectSlot& slot = tensor.impl()->py_slot();
  if (slot.object) {
    PyObject* object = static_cast<PyObject*>(slot.object);
    if (!slot.owned_by_impl) return Py_NewRef(object);
    slot.owned_by_impl = false;  // its reference passes to the caller
    set_tensor(object, std::move(tensor));
    return object;
  }
  return make_object(tensor_type, std::move(tensor));
}

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  offer_to_dispatch(type, tensor);
  return make_object(type, std::move(tensor));
}

void add_tensor_methods(PyMethodDef* table) {
  for (; table->ml_name; ++table) methods.push_back(*table);
}
void add_tensor_getset(PyGetSetDef* table) {
  for (; table->name; ++table) getset.push_back(*table);
}

void make_tensor_type(PyObject* module) {
  release_py_object = &release_object;
  guard_methods(handwritten_tensor_methods, &methods);
  guard_methods(autograd_methods, &methods);
  set_texts(generated_tensor_methods, generated_tensor_texts);
  add_tensor_methods(generated_tensor_methods);
  for (PyGetSetDef* table : {handwritten_tensor_getset, autograd_getset}) {
    for (; table->name; ++table) getset.push_back(guarded_property(table));
  }
  add_tensor_getset(type_getset);
  methods.push_back({nullptr, nullptr, 0, nullptr});
  getset.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  std::vector<PyType_Slot> slots = {
      {Py_tp_doc, const_cast<char*>(kTensorDoc)},
      {Py_tp_new, reinterpret_cast<void*>(base_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, getset.data()},
      {Py_tp_members, members},
  };
  for (PyType_Slot* table : {generated_tensor_slots, handwritten_tensor_slots}) {
    for (; table->slot; ++table) slots.push_back(guarded_slot(replaced(*table)));
  }
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"flambeau.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  PyObject* type = Ref::checked(PyType_FromSpec(&spec)).release();
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  checked(PyModule_AddObjectRef(module, "Tensor", type));
}

}  // namespace flambeau::python
