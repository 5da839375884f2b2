#pragma once
// What a structured operator's shape rule says about one output, and what is done with it.
#include "aten/core/tensor.h"

namespace flambeau {

struct OutSpec {
  DimVector sizes;
  DimVector strides;  // empty: row-major
  ScalarType dtype = ScalarType::Undefined;
  Device device;
  bool defined = true;  // false: this output is None
};

// A fresh output (no data for Meta).
Tensor allocate(const OutSpec& spec);

// For drivers that write any strides and dtype themselves: checks dtype and device of an out=
// argument and resizes it when its size differs.
void prepare_out(const char* op, Tensor& out, const OutSpec& spec);

// An out= argument for a kernel: checks dtype (RuntimeError "a result of type Float can't be
// cast ...") and device, resizes when the size differs, and offers `target()`, which the kernel
// fills: the tensor itself when dtype and strides fit and it does not overlap an input, else a
// temporary that `commit()` copies.
class OutTarget {
 public:
  OutTarget(const char* op, Tensor& out, const OutSpec& spec, ArrayRef<const Tensor*> inputs);
  Tensor& target() { return target_; }
  void commit();

 private:
  Tensor& out_;
  Tensor target_;
};

// In-place on `self`: RuntimeError when sizes differ from the spec's, or its dtype can't be cast
// back.
void check_inplace(const char* op, const Tensor& self, const OutSpec& spec);

}  // namespace flambeau
