#pragma once
// Tensors whose elements are not in their own memory: those of function transforms, and those whose
// class in Python answers for them (__torch_dispatch__). They are read and written by operators
// only.
#include "aten/core/tensor.h"

namespace flambeau::autograd {

inline bool answers_in_python(const Tensor& t) { return t.keys().has(DispatchKey::BackendMode); }
inline bool stands_for_another(const Tensor& t) {
  return t.impl()->wrapper() || answers_in_python(t);
}

}  // namespace flambeau::autograd
