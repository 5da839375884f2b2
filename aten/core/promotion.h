#pragma once
// The common dtype of operands. Priority: tensors with dims, then 0-dim tensors, then numbers; a
// lower class counts only when its category (bool < integer < real < complex) is higher.
#include "aten/core/tensor.h"

namespace flambeau {

class TypePromotion {
 public:
  void add(const Tensor& t) {
    if (!t.defined()) return;
    if (t.impl()->is_wrapped_number()) {
      add_number(dtype_of_number(t.dtype()));
    } else if (t.dim() == 0) {
      join(zero_dim_, t.dtype());
    } else {
      join(dimensioned_, t.dtype());
    }
  }
  void add(const Scalar& s) { add_number(s.dtype()); }
  void add(TensorList list) {
    for (const Tensor& t : list) add(t);
  }
  ScalarType result() const;

 private:
  void add_number(ScalarType t) { join(number_, t); }
  // What a number counts as; the tensor that holds it has the widest type of its category.
  static ScalarType dtype_of_number(ScalarType held);
  static void join(ScalarType& into, ScalarType t) {
    into = into == ScalarType::Undefined ? t : promote_types(into, t);
  }
  ScalarType dimensioned_ = ScalarType::Undefined;
  ScalarType zero_dim_ = ScalarType::Undefined;
  ScalarType number_ = ScalarType::Undefined;
};

template <typename... Operands>
ScalarType result_type(const Operands&... operands) {
  TypePromotion p;
  (p.add(operands), ...);
  return p.result();
}

}  // namespace flambeau
