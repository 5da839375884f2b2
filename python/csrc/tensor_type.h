#pragma once
// The Python type of tensors, and the way between its objects and Tensor handles.
#include "aten/core/tensor.h"
#include "python/csrc/object.h"

namespace flambeau::python {

struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* weak_references;
  PyObject* attributes;  // __dict__, made when it is needed
  uint8_t questions;     // members that the class answers: python/csrc/wrapper_questions.h
};

// flambeau.Tensor. Its Python part is added to it by the package.
extern PyTypeObject* tensor_type;

inline bool is_exact_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type; }
inline bool is_tensor(PyObject* o) {
  return is_exact_tensor(o) || PyObject_TypeCheck(o, tensor_type);
}
// `o` must be a tensor object.
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }
inline Tensor& mutable_tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

// A new reference: the tensor's own object where it has one, None for an undefined tensor.
PyObject* wrap(Tensor tensor);
// A new object of a subclass around the tensor, which must have no object yet.
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);

// Makes the object known to the collector of cycles, as it must be once it can be part of one.
void track(PyObject* tensor);

// Makes the type from all tables and adds it to the module.
void make_tensor_type(PyObject* module);

// Tables that make up the type; each ends with a null entry. Generated and handwritten alike.
void add_tensor_methods(PyMethodDef* methods);
void add_tensor_getset(PyGetSetDef* getset);

// Defined by the other files of the binding.
extern PyMethodDef handwritten_tensor_methods[];
extern PyGetSetDef handwritten_tensor_getset[];
extern PyType_Slot handwritten_tensor_slots[];  // indexing, len, iteration, hash, buffer
extern PyMethodDef autograd_methods[];
extern PyGetSetDef autograd_getset[];
// Generated (torchgen_out/python/tables.cpp): methods, and the slots of the number protocol.
extern PyMethodDef generated_tensor_methods[];
extern PyType_Slot generated_tensor_slots[];
struct NamespaceTable {
  const char* name;  // "" for flambeau itself
  PyMethodDef* functions;
  const uint16_t* texts;  // the number of each function's text in the file of texts
};
extern NamespaceTable generated_namespaces[];

}  // namespace flambeau::python
