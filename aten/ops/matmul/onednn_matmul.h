#pragma once
// Matrix products by oneDNN.
#include "aten/ops/matmul/gemm.h"

namespace flambeau::gemm::onednn {

// False where oneDNN is not built in or does not take the dtype or strides; then nothing was done.
// `bias`: one row, which is added to every row of the result; null adds nothing.
bool multiply(ScalarType dtype, int64_t count, const Matrix& a, int64_t a_step, const Matrix& b,
              int64_t b_step, void* out, int64_t out_step, int64_t ldc, bool accumulate,
              const void* bias = nullptr);

}  // namespace flambeau::gemm::onednn
