#pragma once
// Conditions under which a recorded graph may run again (flambeau.compiler), checked in C++.
#include <optional>
#include <vector>

#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// Class, metadata and autograd state of a tensor. Holds no tensor.
class TensorFacts {
 public:
  // `any_size`: neither sizes nor strides are compared, only the number of dimensions.
  explicit TensorFacts(PyObject* tensor, bool any_size = false);
  bool hold_for(PyObject* object) const;
  bool hold_at_any_size(PyObject* object) const;
  PyObject* type() const { return type_.get(); }

 private:
  struct Flags {
    bool requires_grad, is_leaf, is_inference, is_conj, is_neg, is_wrapper;
    bool operator==(const Flags&) const = default;
  };
  static Flags flags_of(const Tensor& tensor);

  Ref type_;
  ScalarType dtype_;
  Device device_;
  Layout layout_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;  // of strided tensors
  bool any_size_;
  Flags flags_;
};

// The state of a thread that operators read.
struct ThreadFacts {
  bool grad_enabled, inference_mode, autocasts, autocasts_cuda, keeps_casts, is_anomalous;
  int determinism;  // 0: not needed, 1: warns, 2: raises
  ScalarType autocast_dtype, autocast_dtype_cuda, default_dtype;
  std::optional<Device> device;
  bool operator==(const ThreadFacts&) const = default;

  static ThreadFacts now();
};

// _C._TensorGuard(tensor) and _C._ThreadGuard(): called, they tell whether a tensor is as the given
// one was, or the thread as it was then.
struct TensorGuardObject {
  PyObject_HEAD TensorFacts* facts;
  PyObject* description;  // for messages; set by Python
};
struct ThreadGuardObject {
  PyObject_HEAD ThreadFacts* facts;
  bool holds() const { return ThreadFacts::now() == *facts; }
};
extern PyTypeObject* tensor_guard_type;
extern PyTypeObject* thread_guard_type;
void add_simple_guards(PyObject* module);

// What an attribute of an object or an element of a dict was when it was last read. Python gives
// each state of a dict and of a class a number of its own, so equal numbers mean an equal result.
class Remembered {
 public:
  // The object found then, borrowed; null if the state differs.
  PyObject* of_dict(PyObject* dict) const;
  PyObject* of_attribute(PyObject* owner) const;
  // `found` is what is in the dict now.
  void keep_dict(PyObject* dict, PyObject* found);
  // Keeps the attribute if it is an entry of the object's dict and nothing of its class hides that,
  // or, with `found` the dict itself, that the dict has no such entry.
  void keep_attribute(PyObject* owner, PyObject* name, PyObject* found);
  void keep_absence(PyObject* owner, PyObject* dict);
  // The same of a class: whether it is in the state that it was in.
  bool is_class(PyObject* type) const;
  void keep_class(PyObject* type);

 private:
  PyObject* found_ = nullptr;  // borrowed; read only while the dict is in its old state
  PyObject* dict_ = nullptr;   // compared, never read
  uint64_t version_ = 0;
  PyTypeObject* type_ = nullptr;  // compared, never read
  unsigned type_version_ = 0;
};

// Adds _C._Guards, the guards above and the functions around calls of compiled functions.
void add_guards(PyObject* module);

}  // namespace flambeau::python
