#pragma once
// What the generator says about one reduction; the drivers need nothing else.
#include "aten/core/pointwise_op.h"

namespace flambeau {

struct ReduceOp {
  const char* name;  // "sum"
  DTypeRule rule;
  uint32_t allowed;      // bit i: ScalarType i may be the common dtype
  uint8_t num_operands;  // including the let tensors, which come last
  uint8_t num_let;
  uint8_t num_params;
  bool empty_is_error;                 // IndexError where nothing is reduced; else the identity
  bool no_dims_are_all;                // an empty list of dims reduces all; else nothing
  bool integers_widen;                 // bool and integers become int64 (sum, prod)
  uint8_t acc_size[kNumComputeTypes];  // bytes of an accumulator, by compute dtype
  LoopTable<ReduceLoops> loops;        // by compute dtype; init is null: unsupported
};

// Dtypes, sizes and device of the result; all checks. `dtype` casts the operands first.
OutSpec reduce_spec(const ReduceOp& op, ArrayRef<const Tensor*> operands,
                    const std::optional<IntArrayRef>& dim, bool keepdim,
                    std::optional<ScalarType> dtype, ArrayRef<Scalar> params);
// Whether a call reduces all dimensions.
bool reduces_all(const ReduceOp& op, const std::optional<IntArrayRef>& dim);
PointwiseDTypes reduce_dtypes(const ReduceOp& op, ArrayRef<const Tensor*> operands,
                              std::optional<ScalarType> dtype);

}  // namespace flambeau
