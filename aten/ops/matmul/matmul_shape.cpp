// Shapes and argument checks of matrix products.
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/matmul_kernels.h"

namespace flambeau::shape {
namespace {

void check_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op, ": expected operands of the same dtype, got ", a.dtype(),
        " and ", b.dtype());
  if (a.dtype() == ScalarType::Bool)
    fail(ErrorKind::NotImplemented, op,
         ": expected numbers, got bool (not implemented for 'Bool')");
}

}  // namespace

void mm(const Tensor& self, const Tensor& mat2, OutSpec* out) {
  check(self.dim() == 2, "mm: expected a matrix as self, got ", self);
  check(mat2.dim() == 2, "mm: expected a matrix as mat2, got ", mat2);
  check(self.size(1) == mat2.size(0), "mm: shapes cannot be multiplied: got ", self, " and ", mat2);
  check_dtypes("mm", self, mat2);
  *out = {{self.size(0), mat2.size(1)}, {}, self.dtype(), self.device()};
}

void addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, OutSpec* out) {
  mm(mat1, mat2, out);
  check(is_broadcastable_to(self.sizes(), out->sizes), "addmm: expected an input that expands to ",
        out->sizes, ", got ", self);
  check_dtypes("addmm", self, mat1);
}

void bmm(const Tensor& self, const Tensor& mat2, OutSpec* out) {
  check(self.dim() == 3, "bmm: expected a 3D tensor as batch1, got ", self);
  check(mat2.dim() == 3, "bmm: expected a 3D tensor as batch2, got ", mat2);
  check(self.size(0) == mat2.size(0) && self.size(2) == mat2.size(1),
        "bmm: expected batch2 to begin with [", self.size(0), ", ", self.size(2), "], got ", self,
        " and ", mat2);
  check_dtypes("bmm", self, mat2);
  *out = {{self.size(0), self.size(1), mat2.size(2)}, {}, self.dtype(), self.device()};
}

void mv(const Tensor& self, const Tensor& vec, OutSpec* out) {
  check(self.dim() == 2 && vec.dim() == 1, "mv: vector + matrix @ vector expected, got ", self,
        " and ", vec);
  check(self.size(1) == vec.size(0),
        "mv: expected as many elements as columns (size mismatch), got ", self, " and ", vec);
  check_dtypes("mv", self, vec);
  *out = {{self.size(0)}, {}, self.dtype(), self.device()};
}

void conjugate_dot(const Tensor& self, const Tensor& other, OutSpec* out) {
  check(self.dim() == 1 && other.dim() == 1, "vdot: 1D tensors expected, got ", self, " and ",
        other);
  check(self.size(0) == other.size(0),
        "vdot: inconsistent tensor size, expected vectors of one length, got ", self, " and ",
        other);
  check_dtypes("vdot", self, other);
  *out = {{}, {}, self.dtype(), self.device()};
}

}  // namespace flambeau::shape
