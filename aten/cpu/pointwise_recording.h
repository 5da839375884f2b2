#pragma once
// The first test of `pointwise`: whether this thread records operators instead of running them.
#include "aten/core/pointwise_op.h"

namespace flambeau {

class PointwiseRecorder {
 public:
  // The result of the operator as a tensor without memory.
  virtual Tensor record(const PointwiseOp& op, ArrayRef<Operand> operands,
                        ArrayRef<Scalar> params) = 0;

 protected:
  ~PointwiseRecorder() = default;
};

// Null: this thread computes. initial-exec keeps the test to two instructions.
extern thread_local constinit PointwiseRecorder* pointwise_recorder
    __attribute__((tls_model("initial-exec")));

}  // namespace flambeau
