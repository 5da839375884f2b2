// Matrix products on CPU, by gemm::multiply.
// Formula: result[i, j] = sum_p self[i, p] * mat2[p, j].
// Accumulates in: the dtype; float32 for half types.
// NaN, infinity: both follow IEEE arithmetic; an empty sum gives zeros.
// Error: k * eps * sum |a||b| of the dtype's accumulator, tested at 1e-5 relative for float32, k =
// 512.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/matmul/gemm.h"
#include "aten/ops/matmul/gemv.h"
#include "torchgen_out/aten/matmul_kernels.h"

namespace flambeau::ops {

void mm_cpu(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (mat2.size(1) == 1 && gemv::multiply(self, mat2.data(), mat2.stride(0), out.data())) return;
  gemm::multiply(self.dtype(), gemm::matrix_of(self), gemm::matrix_of(mat2), out.data(),
                 out.size(1), false);
}

void addmm_cpu(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Tensor& out) {
  if (self.dtype() == out.dtype() && self.dim() > 0 && self.size(-1) == out.size(1)) {
    const gemm::Matrix a = gemm::matrix_of(mat1), b = gemm::matrix_of(mat2);
    const bool is_row = self.dim() == 1 || self.size(0) == 1;
    const int64_t step = is_row ? 0 : self.stride(0);
    const gemm::Matrix addend{self.data(), out.size(0), out.size(1), step, self.stride(-1)};
    if (gemm::multiply_few_rows_and_add(out.dtype(), a, b, addend, out.data())) return;
    if (step == 0 && addend.col_stride == 1 &&
        gemm::multiply_and_add_row(out.dtype(), a, b, self.data(), out.data()))
      return;
  }
  copy_into(out, self);
  gemm::multiply(out.dtype(), gemm::matrix_of(mat1), gemm::matrix_of(mat2), out.data(), out.size(1),
                 true);
}

void bmm_cpu(const Tensor& self, const Tensor& mat2, Tensor& out) {
  gemm::multiply_batched(self.dtype(), self.size(0), gemm::matrix_of(self), self.stride(0),
                         gemm::matrix_of(mat2), mat2.stride(0), out.data(),
                         out.size(1) * out.size(2), out.size(2), false);
}

void mv_cpu(const Tensor& self, const Tensor& vec, Tensor& out) {
  if (gemv::multiply(self, vec.data(), vec.stride(0), out.data())) return;
  const gemm::Matrix column{vec.data(), vec.size(0), 1, vec.stride(0), 1};
  gemm::multiply(self.dtype(), gemm::matrix_of(self), column, out.data(), 1, false);
}

}  // namespace flambeau::ops
