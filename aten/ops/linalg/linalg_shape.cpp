// Shapes and argument checks of linear algebra. Matrices come out by columns where LAPACK writes
// them.
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/linalg/matrices.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::shape {

using namespace linalg;

void cholesky_ex(const Tensor& self, OutSpec* out) {
  check_square_lapack("linalg.cholesky", self);
  out[0] = by_columns(self, batch_of(self), self.size(-1), self.size(-1));
  out[1] = by_rows(self, batch_of(self), ScalarType::Int32);
}

void inverse_ex(const Tensor& A, OutSpec* out) {
  check_square_lapack("linalg.inv", A);
  out[0] = by_columns(A, batch_of(A), A.size(-1), A.size(-1));
  out[1] = by_rows(A, batch_of(A), ScalarType::Int32);
}

void lu_factor(const Tensor& A, std::string_view caller, OutSpec* out) {
  const std::string op(caller);
  check_matrices(op.c_str(), A);
  check_lapack_dtype(op.c_str(), A, ErrorKind::NotImplemented);
  out[0] = by_columns(A, batch_of(A), A.size(-2), A.size(-1));
  const int64_t k = std::min(A.size(-2), A.size(-1));
  out[1] = by_rows(A, batch_with(batch_of(A), {k}), ScalarType::Int32);
  out[2] = by_rows(A, batch_of(A), ScalarType::Int32);
}

void ldl_factor_ex(const Tensor& self, OutSpec* out) {
  check_square_lapack("linalg.ldl_factor_ex", self, "self");
  out[0] = by_columns(self, batch_of(self), self.size(-1), self.size(-1));
  out[1] = by_rows(self, batch_with(batch_of(self), {self.size(-1)}), ScalarType::Int32);
  out[2] = by_rows(self, batch_of(self), ScalarType::Int32);
}

void ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, OutSpec* out) {
  constexpr const char* op = "linalg.ldl_solve";
  check_square_lapack(op, LD, "LD");
  check_matrices(op, B, "B");
  check_same_dtype(op, LD, B);
  check(LD.size(-1) == B.size(-2), op, ": expected matching sizes of LD and B, got ", LD, " and ",
        B);
  check(pivots.dtype() == ScalarType::Int32, op, ": expected integer pivots, got ",
        pytorch_name_of(pivots.dtype()));
  check(pivots.sizes() == LD.sizes().slice(0, LD.sizes().size() - 1), op,
        ": expected pivots of shape LD.shape[:-1], got ", pivots);
  *out = by_columns(B, broadcast_sizes(batch_of(LD), batch_of(B)), B.size(-2), B.size(-1));
}

void factored_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, OutSpec* out) {
  constexpr const char* op = "linalg.lu_solve";
  check_square_lapack(op, LU, "LU");
  check_matrices(op, B, "B");
  check_same_dtype(op, LU, B);
  check(pivots.dtype() == ScalarType::Int32, op, ": expected pivots of dtype torch.int32, got ",
        pytorch_name_of(pivots.dtype()));
  check(pivots.sizes() == LU.sizes().slice(0, LU.sizes().size() - 1), op,
        ": expected one of the pivots per row of each matrix, got ", pivots, " for LU ", LU);
  check(LU.size(-1) == B.size(-2), op, ": expected as many rows in B as in A (Incompatible shapes ",
        "for AX = B), got A of ", LU.size(-2), "x", LU.size(-1), " and B of ", B.size(-2), "x",
        B.size(-1));
  *out = by_columns(B, broadcast_sizes(batch_of(LU), batch_of(B)), B.size(-2), B.size(-1));
}

void pivots_to_permutation(const Tensor& pivots, int64_t rows, OutSpec* out) {
  check(pivots.dim() >= 1, "lu_unpack: expected pivots with a dimension, got a 0-dim tensor");
  check(pivots.dtype() == ScalarType::Int32,
        "lu_unpack: expected LU_pivots as lu_factor gives them, contiguous and of dtype "
        "torch.int32, got ",
        pytorch_name_of(pivots.dtype()));
  DimVector sizes = pivots.sizes();
  sizes.back() = rows;
  *out = by_rows(pivots, sizes, ScalarType::Int64);
}

void solve_triangular(const Tensor& self, const Tensor& B, bool left, OutSpec* out) {
  constexpr const char* op = "linalg.solve_triangular";
  check_square_lapack(op, self, "A", ErrorKind::NotImplemented);
  check_matrices(op, B, "B");
  check_same_dtype(op, self, B);
  const int64_t along = left ? -2 : -1;
  check(B.size(along) == self.size(-1), op, ": expected as many ", left ? "rows" : "columns",
        " in B as in A (Incompatible shapes for ", left ? "AX = B" : "XA = B", "), got A of ",
        self.size(-2), "x", self.size(-1), " and B of ", B.size(-2), "x", B.size(-1));
  *out = by_columns(B, broadcast_sizes(batch_of(self), batch_of(B)), B.size(-2), B.size(-1));
}

void geqrf(const Tensor& self, OutSpec* out) {
  check_matrices("geqrf", self, "input");
  check_lapack_dtype("geqrf", self, ErrorKind::NotImplemented);
  const int64_t m = self.size(-2), n = self.size(-1);
  out[0] = by_columns(self, batch_of(self), m, n);
  out[1] = by_rows(self, batch_with(batch_of(self), {std::min(m, n)}), self.dtype());
}

void qr(const Tensor& A, std::string_view mode, OutSpec* out) {
  check_matrices("linalg.qr", A);
  check_lapack_dtype("linalg.qr", A);
  check(mode == "reduced" || mode == "complete" || mode == "r",
        "linalg.qr: expected mode 'reduced', 'r' or 'complete', got '", mode, "'");
  const int64_t m = A.size(-2), n = A.size(-1), k = mode == "complete" ? m : std::min(m, n);
  out[0] = mode == "r" ? by_rows(A, {0}, A.dtype()) : by_columns(A, batch_of(A), m, k);
  out[1] = by_columns(A, batch_of(A), k, n);
}

void householder_product(const Tensor& input, const Tensor& tau, OutSpec* out) {
  constexpr const char* op = "linalg.householder_product";
  const auto expect = [&](bool fits, const char* what) {
    check(fits, op, ": expected ", what, ", got ", input, " and ", tau);
  };
  expect(input.dim() >= 2, "an input of at least 2 dimensions");
  expect(input.size(-2) >= input.size(-1), "rows greater than or equal to columns");
  expect(tau.dim() >= 1 && input.size(-1) >= tau.size(-1), "no more reflectors than columns");
  expect(input.dim() - tau.dim() == 1, "tau of one dimension less than input");
  expect(batch_of(input) == tau.sizes().slice(0, tau.sizes().size() - 1),
         "equal batch dimensions of tau and the input");
  check(tau.dtype() == input.dtype(), op, ": expected tau of the input's dtype ", input.dtype(),
        ", got ", tau.dtype());
  check_lapack_dtype(op, input, ErrorKind::NotImplemented);
  *out = by_columns(input, batch_of(input), input.size(-2), input.size(-1));
}

void ormqr(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left,
           OutSpec* out) {
  constexpr const char* op = "ormqr";
  const auto expect = [&](bool fits, const char* what) {
    check(fits, op, ": expected ", what, ", got ", self, ", ", input2, " and ", input3,
          left ? "" : " with left=False");
  };
  expect(self.dim() >= 2, "an input of at least 2 dimensions");
  expect(input3.dim() >= 2, "an other of at least 2 dimensions");
  expect(input2.dim() >= 1, "a tau of at least 1 dimension");
  const int64_t along = input3.size(left ? -2 : -1);
  expect(along >= input2.size(-1), "a side of other as long as tau, or longer");
  expect(along == self.size(-2), "the side of other that is multiplied to equal the input's rows");
  expect(input2.size(-1) <= self.size(-1), "tau less than or equal in length to the input's rows");
  expect(self.dim() - input2.dim() == 1, "tau of one dimension less than input");
  expect(self.dim() == input3.dim(), "other of as many dimensions as input");
  expect(batch_of(self) == input2.sizes().slice(0, input2.sizes().size() - 1),
         "equal batch dimensions of tau and the input");
  expect(batch_of(self) == batch_of(input3), "equal batch dimensions of other and the input");
  check(input2.dtype() == self.dtype() && input3.dtype() == self.dtype(), op,
        ": expected the same dtype of all, got ", self.dtype(), ", ", input2.dtype(), " and ",
        input3.dtype());
  check_lapack_dtype(op, self, ErrorKind::NotImplemented);
  *out = by_columns(input3, batch_of(input3), input3.size(-2), input3.size(-1));
}

void eigh(const Tensor& A, std::string_view UPLO, bool compute_v, OutSpec* out) {
  check_square_lapack("linalg.eigh", A, "A", ErrorKind::NotImplemented);
  check(UPLO == "L" || UPLO == "U" || UPLO == "l" || UPLO == "u",
        "linalg.eigh: Expected UPLO 'L' or 'U', got ", UPLO);
  out[0] = by_rows(A, batch_with(batch_of(A), {A.size(-1)}), to_real_type(A.dtype()));
  out[1] =
      compute_v ? by_columns(A, batch_of(A), A.size(-1), A.size(-1)) : by_rows(A, {0}, A.dtype());
}

void eig(const Tensor& self, bool compute_v, OutSpec* out) {
  check_square_lapack("linalg.eig", self);
  const ScalarType dtype = to_complex_type(self.dtype());
  const int64_t n = self.size(-1);
  out[0] = by_rows(self, batch_with(batch_of(self), {n}), dtype);
  out[1] = compute_v ? by_columns(self, batch_of(self), n, n) : by_rows(self, {0}, dtype);
  out[1].dtype = dtype;
}

void svd(const Tensor& A, bool full_matrices, bool compute_uv, OutSpec* out) {
  check_matrices("linalg.svd", A);
  check_lapack_dtype("linalg.svd", A);
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  out[1] = by_rows(A, batch_with(batch_of(A), {k}), to_real_type(A.dtype()));
  if (!compute_uv) {
    out[0] = out[2] = by_rows(A, {0}, A.dtype());
    return;
  }
  out[0] = by_columns(A, batch_of(A), m, full_matrices ? m : k);
  out[2] = by_columns(A, batch_of(A), full_matrices ? n : k, n);
}

void lstsq(const Tensor& self, const Tensor& b, std::string_view driver, OutSpec* out) {
  const bool fits = self.dim() >= 2 && b.dim() == self.dim() && batch_of(b) == batch_of(self) &&
                    b.size(-2) == self.size(-2) && b.dtype() == self.dtype();
  check(fits, "linalg.lstsq: expected matrices of equally many rows and one dtype, got ", self,
        " and ", b);
  const bool values = driver == "gelsd" || driver == "gelss";
  check(values || driver == "gels" || driver == "gelsy",
        "linalg.lstsq: expected gels, gelsd, gelss or gelsy as driver, got ", driver);
  out[0] = by_columns(self, batch_of(self), self.size(-1), b.size(-1));
  out[1] =
      by_rows(self, driver == "gels" ? DimVector{0} : DimVector(batch_of(self)), ScalarType::Int64);
  out[2] = by_rows(
      self,
      values ? batch_with(batch_of(self), {std::min(self.size(-2), self.size(-1))}) : DimVector{0},
      to_real_type(self.dtype()));
}

void matrix_exp(const Tensor& self, OutSpec* out) {
  check_square("linalg.matrix_exp", self);
  check(self.is_floating_point() || self.is_complex(),
        "linalg.matrix_exp: expected a floating or complex tensor, got ",
        pytorch_name_of(self.dtype()));
  like(self, out);
}

}  // namespace flambeau::shape
