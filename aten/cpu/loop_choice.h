#pragma once
// Which loop of a pointwise operator runs: what eager calls and fused groups decide alike.
#include "aten/core/messages.h"
#include "aten/core/pointwise_op.h"

namespace flambeau {

// `dtype`: the compute type, or one that the operator's loops take as it lies in memory.
inline PointwiseLoop loop_of(const PointwiseOp& op, ScalarType dtype) {
  const PointwiseLoop loop = op.loops[index_of(dtype)];
  if (!loop) [[unlikely]]
    fail_dtype(op.name, dtype);
  return loop;
}

// Whether a loop reads and writes `dtype`, which it does not compute in, as it lies in memory.
inline bool has_stored_loop(const PointwiseOp& op, ScalarType dtype) {
  return dtype == ScalarType::BFloat16 && op.loops[index_of(dtype)];
}

// Numbers are operands of the compute type; in a loop over stored elements they must lose nothing.
inline bool is_exact_bfloat16(const Scalar& number) {
  uint32_t bits;
  number.store(ScalarType::Float32, &bits);
  return (bits & 0xffffu) == 0;
}

inline void check_loop_errors(uint32_t errors) {
  check(!(errors & kIntegerDivisionByZero), "ZeroDivisionError");
}

}  // namespace flambeau
