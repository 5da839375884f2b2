// The facts that guards compare: the state of tensors and threads, and the numbers of dicts and
// classes.
#include <structmember.h>

#include "aten/autograd/anomaly.h"
#include "aten/autograd/variable.h"
#include "aten/core/determinism.h"
#include "aten/transforms/autocast.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/guards.h"

namespace flambeau::python {

// --- tensors -------------------------------------------------------------------------------------

TensorFacts::Flags TensorFacts::flags_of(const Tensor& t) {
  return {autograd::requires_grad(t),
          autograd::is_leaf(t),
          t.impl()->is_inference(),
          t.is_conj(),
          t.is_neg(),
          t.impl()->wrapper() != nullptr};
}

TensorFacts::TensorFacts(PyObject* tensor, bool any_size)
    : type_(Ref::share(reinterpret_cast<PyObject*>(Py_TYPE(tensor)))), any_size_(any_size) {
  const Tensor& t = tensor_of(tensor);
  dtype_ = t.dtype();
  device_ = t.device();
  layout_ = t.layout();
  sizes_.assign(t.sizes().begin(), t.sizes().end());
  if (layout_ == Layout::Strided) strides_.assign(t.strides().begin(), t.strides().end());
  flags_ = flags_of(t);
}

bool TensorFacts::hold_at_any_size(PyObject* object) const {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != type_.get()) return false;
  const Tensor& t = tensor_of(object);
  if (!t.defined() || t.dtype() != dtype_ || t.device() != device_ || t.layout() != layout_)
    return false;
  return t.sizes().size() == sizes_.size() && flags_of(t) == flags_;
}

bool TensorFacts::hold_for(PyObject* object) const {
  if (!hold_at_any_size(object)) return false;
  if (any_size_) return true;
  const Tensor& t = tensor_of(object);
  if (t.sizes() != IntArrayRef(sizes_)) return false;
  return layout_ != Layout::Strided || t.strides() == IntArrayRef(strides_);
}

// --- threads -------------------------------------------------------------------------------------

ThreadFacts ThreadFacts::now() {
  return {thread_state.grad_enabled,
          thread_state.inference_mode,
          autocast::is_enabled(DeviceType::CPU),
          autocast::is_enabled(DeviceType::CUDA),
          autocast::is_cache_enabled(),
          autograd::anomaly_mode(),
          deterministic_mode(),
          autocast::dtype_of(DeviceType::CPU),
          autocast::dtype_of(DeviceType::CUDA),
          flambeau::default_dtype(),
          default_device()};
}

// --- dicts and classes ---------------------------------------------------------------------------

namespace {

// 0: the state has no number.
uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  return dict ? 0 : 0;
#endif
}
unsigned version_of(PyTypeObject* type) {
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

PyObject* dict_of(PyObject* owner) {
  PyObject** const place = _PyObject_GetDictPtr(owner);
  return place ? *place : nullptr;
}

// Whether attributes are found as `object` finds them, with a __getattr__ for missing ones at most.
bool finds_plainly(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__getattribute__");
  return _PyType_Lookup(type, name) == _PyType_Lookup(&PyBaseObject_Type, name);
}

}  // namespace

PyObject* Remembered::of_dict(PyObject* dict) const {
  return dict == dict_ && version_of(dict) == version_ ? found_ : nullptr;
}

PyObject* Remembered::of_attribute(PyObject* owner) const {
  if (Py_TYPE(owner) != type_ || version_of(type_) != type_version_) return nullptr;
  PyObject* const dict = dict_of(owner);
  return dict ? of_dict(dict) : nullptr;
}

void Remembered::keep_dict(PyObject* dict, PyObject* found) {
  version_ = version_of(dict);
  dict_ = version_ ? dict : nullptr;
  found_ = found;
}

void Remembered::keep_attribute(PyObject* owner, PyObject* name, PyObject* found) {
  type_ = nullptr;
  PyTypeObject* const type = Py_TYPE(owner);
  PyObject* const dict = dict_of(owner);
  if (!dict || !finds_plainly(type)) return;
  PyObject* const of_class = _PyType_Lookup(type, name);
  if (of_class && Py_TYPE(of_class)->tp_descr_set) return;
  const uint64_t before = version_of(dict);
  PyObject* const entry = PyDict_GetItemWithError(dict, name);
  if (!entry) PyErr_Clear();
  if (entry != found || version_of(dict) != before) return;
  keep_dict(dict, found);
  type_version_ = version_of(type);
  if (type_version_) type_ = type;
}

bool Remembered::is_class(PyObject* type) const {
  return type == reinterpret_cast<PyObject*>(type_) && version_of(type_) == type_version_;
}

void Remembered::keep_class(PyObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  type_ = nullptr;
  auto* const kept = reinterpret_cast<PyTypeObject*>(type);
  _PyType_Lookup(kept, name);  // gives the class a number, if there is one left
  type_version_ = version_of(kept);
  if (type_version_) type_ = kept;
}

void Remembered::keep_absence(PyObject* owner, PyObject* dict) {
  type_ = nullptr;
  PyTypeObject* const type = Py_TYPE(owner);
  if (dict != dict_of(owner) || !PyDict_CheckExact(dict) || !finds_plainly(type)) return;
  keep_dict(dict, dict);
  type_version_ = version_of(type);
  if (type_version_) type_ = type;
}

// --- guards of one tensor, and of the thread -----------------------------------------------------

PyTypeObject* tensor_guard_type;
PyTypeObject* thread_guard_type;

namespace {

PyObject* make_tensor_guard(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor;
    int any_size = 0;
    if (!PyArg_ParseTuple(args, "O!|p:_TensorGuard", tensor_type, &tensor, &any_size))
      return nullptr;
    auto facts = std::make_unique<TensorFacts>(tensor, any_size != 0);
    Ref self = Ref::checked(type->tp_alloc(type, 0));
    auto* guard = reinterpret_cast<TensorGuardObject*>(self.get());
    guard->facts = facts.release();
    return self.release();
  });
}
PyObject* call_tensor_guard(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* object;
    if (!PyArg_ParseTuple(args, "O:_TensorGuard", &object)) return nullptr;
    return PyBool_FromLong(reinterpret_cast<TensorGuardObject*>(self)->facts->hold_for(object));
  });
}
PyObject* tensor_guard_at_any_size(PyObject* self, PyObject* object) {
  const TensorFacts* const facts = reinterpret_cast<TensorGuardObject*>(self)->facts;
  return guarded([&]() -> PyObject* { return PyBool_FromLong(facts->hold_at_any_size(object)); });
}
int traverse_tensor_guard(PyObject* self, visitproc visit, void* arg) {
  const auto* guard = reinterpret_cast<TensorGuardObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(guard->description);
  if (guard->facts) Py_VISIT(guard->facts->type());
  return 0;
}

PyObject* make_thread_guard(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!PyArg_ParseTuple(args, ":_ThreadGuard")) return nullptr;
    auto facts = std::make_unique<ThreadFacts>(ThreadFacts::now());
    Ref self = Ref::checked(type->tp_alloc(type, 0));
    auto* guard = reinterpret_cast<ThreadGuardObject*>(self.get());
    guard->facts = facts.release();
    return self.release();
  });
}
PyObject* call_thread_guard(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!PyArg_ParseTuple(args, ":_ThreadGuard")) return nullptr;
    return PyBool_FromLong(reinterpret_cast<ThreadGuardObject*>(self)->holds());
  });
}
int traverse_thread_guard(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

template <typename Object>
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* guard = reinterpret_cast<Object*>(self);
  delete guard->facts;
  if constexpr (requires { guard->description; }) Py_XDECREF(guard->description);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}
PyTypeObject* type_from(PyObject* module, const char* name, int size, PyType_Slot* slots) {
  PyType_Spec spec = {name, size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  PyObject* const type = Ref::checked(PyType_FromSpec(&spec)).release();
  checked(PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type)));
  return reinterpret_cast<PyTypeObject*>(type);
}

PyMethodDef tensor_guard_methods[] = {
    {"matches_at_any_size", tensor_guard_at_any_size, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef tensor_guard_members[] = {
    {"description", T_OBJECT, offsetof(TensorGuardObject, description), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

void add_simple_guards(PyObject* module) {
  PyType_Slot of_tensors[] = {{Py_tp_new, slot(make_tensor_guard)},
                              {Py_tp_call, slot(call_tensor_guard)},
                              {Py_tp_traverse, slot(traverse_tensor_guard)},
                              {Py_tp_dealloc, slot(dealloc<TensorGuardObject>)},
                              {Py_tp_members, tensor_guard_members},
                              {Py_tp_methods, tensor_guard_methods},
                              {0, nullptr}};
  tensor_guard_type =
      type_from(module, "flambeau._C._TensorGuard", sizeof(TensorGuardObject), of_tensors);
  PyType_Slot of_threads[] = {{Py_tp_new, slot(make_thread_guard)},
                              {Py_tp_call, slot(call_thread_guard)},
                              {Py_tp_traverse, slot(traverse_thread_guard)},
                              {Py_tp_dealloc, slot(dealloc<ThreadGuardObject>)},
                              {0, nullptr}};
  thread_guard_type =
      type_from(module, "flambeau._C._ThreadGuard", sizeof(ThreadGuardObject), of_threads);
}

}  // namespace flambeau::python
