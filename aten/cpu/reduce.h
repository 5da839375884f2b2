#pragma once
// Runs a reduction's loops over tensors of any dtype, shape and stride.
#include "aten/core/reduce_op.h"

namespace flambeau {

// `dim` null or empty: all dimensions. Operands broadcast with one another; let tensors have size 1
// in the reduced dimensions.
Tensor reduce(const ReduceOp& op, ArrayRef<const Tensor*> operands,
              const std::optional<IntArrayRef>& dim, bool keepdim, std::optional<ScalarType> dtype,
              ArrayRef<Scalar> params);
Tensor& reduce_out(const ReduceOp& op, Tensor& out, ArrayRef<const Tensor*> operands,
                   const std::optional<IntArrayRef>& dim, bool keepdim,
                   std::optional<ScalarType> dtype, ArrayRef<Scalar> params);

}  // namespace flambeau
