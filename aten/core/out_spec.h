#pragma once
// What a structured operator's shape rule says about one output, and what is done with it.
#include <vector>

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

// The tensors of a call: single ones and those in lists.
std::vector<const Tensor*> tensors_of(ArrayRef<const Tensor*> single, ArrayRef<TensorList> lists);

// In which way a written tensor may share memory with an input.
enum class Sharing { Aligned, None };  // Aligned: element by element

// RuntimeError "unsupported operation" where `written` shares memory with an input in another way.
// What cannot be decided (strides that interleave) passes.
void check_sharing(const char* op, const Tensor& written, ArrayRef<const Tensor*> inputs,
                   Sharing allowed);
// The same where several places of `written` share memory.
void check_written_once(const char* op, const Tensor& written);
// The same where two results of one call share memory.
void check_apart(const char* op, ArrayRef<const Tensor*> results);

// Whether `out` must be resized and shares its storage with an input, which the kernel would then
// read at another size or from memory that is already written.
bool grows_under(const Tensor& out, const OutSpec& spec, ArrayRef<const Tensor*> inputs);

// For drivers that write any strides and dtype themselves: checks dtype and device of an out=
// argument and resizes it when its size differs.
void prepare_out(const char* op, Tensor& out, const OutSpec& spec);

// An out= argument for a kernel: checks dtype (RuntimeError "a result of type Float can't be
// cast ...") and device, resizes when the size differs, and offers `target()`, which the kernel
// fills: the tensor itself when dtype and strides fit and it does not overlap an input, else a
// temporary that `commit()` copies. An out= that is an input as well is resized by `commit()`.
class OutTarget {
 public:
  OutTarget(const char* op, Tensor& out, const OutSpec& spec, ArrayRef<const Tensor*> inputs);
  Tensor& target() { return target_; }
  void commit();

 private:
  const char* op_;
  Tensor& out_;
  const OutSpec& spec_;  // the caller's
  Tensor target_;
};

// In-place on `self`: RuntimeError when sizes differ from the spec's, or its dtype can't be cast
// back.
void check_inplace(const char* op, const Tensor& self, const OutSpec& spec);

}  // namespace flambeau
