#pragma once
// Products of integer matrices, which no library computes.
#include "aten/ops/matmul/gemm.h"

namespace flambeau::gemm {

// out = a * b, or += when `accumulate`, modulo 2^bits, for uint8 and the signed types.
void multiply_integers(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                       bool accumulate);

}  // namespace flambeau::gemm
