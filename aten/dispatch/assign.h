#pragma once
// Handing a computed result to a tensor that exists: the in-place and out= forms of operators that
// have no kernel of their own for it.
#include "aten/core/out_spec.h"
#include "aten/core/view.h"

namespace flambeau {

// self <- result through the operator copy_, so that autograd sees it. Sizes must agree.
void assign_inplace(Tensor& self, const Tensor& result);
// What an in-place form of other operators reads in place of `self`: a copy where the call is
// recorded, since the operators save it and `self` is written afterwards.
Tensor unwritten(const Tensor& self, DispatchKeySet keys);
// out <- result, resized and cast as out= arguments are. No autograd, no version bump.
void assign_out(const char* op, Tensor& out, const Tensor& result);
// The same for each tensor of a list, whose length must be that of the results; bumps versions.
void assign_outs(const char* op, TensorList outs, TensorList results);
// Copies each result that shares memory with the destination of another one.
void keep_results(ArrayRef<const Tensor*> outs, ArrayRef<Tensor*> results);
// For operators whose out= is not cast to: RuntimeError unless it has the result's dtype.
void require_dtype(const char* op, const Tensor& out, ScalarType dtype);
void require_dtype(const char* op, TensorList outs, TensorList results);
// For operators whose out= of a dtype that the result can't be cast to is a TypeError.
void require_castable(const char* op, const Tensor& out, ScalarType dtype);
// One tensor on Meta brings a call here; what it would give on another device has no values.
void require_meta(const char* op, const Tensor& written);
void require_meta(const char* op, TensorList written);
void require_meta(const char* op, ArrayRef<OutSpec> results);
// The same for what is read: a tensor with elements elsewhere cannot be mixed in, only a number.
void require_meta(const char* op, ArrayRef<const Tensor*> inputs);

}  // namespace flambeau
