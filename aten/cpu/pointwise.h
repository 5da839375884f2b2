#pragma once
// Runs a pointwise operator's contiguous loops over tensors of any dtype, shape and stride.
#include "aten/core/pointwise_op.h"

namespace flambeau {

// What `pointwise` would return; tensors are asked for their geometry and dtype only.
OutSpec result_spec(const PointwiseOp& op, ArrayRef<Operand> operands);
Tensor pointwise(const PointwiseOp& op, ArrayRef<Operand> operands, ArrayRef<Scalar> params);
// `self` is operand 0 as well.
Tensor& pointwise_inplace(const PointwiseOp& op, Tensor& self, ArrayRef<Operand> operands,
                          ArrayRef<Scalar> params);
Tensor& pointwise_out(const PointwiseOp& op, Tensor& out, ArrayRef<Operand> operands,
                      ArrayRef<Scalar> params);

}  // namespace flambeau
