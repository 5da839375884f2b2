// Factors of square and general matrices on CPU, by LAPACK, in place in column-major outputs.
// Formula:
//   cholesky  A = L L^H (or U^H U)     potrf; reads one triangle
//   lu        A = P L U                getrf; pivots count from 1, as LAPACK's do
//   ldl       A = L D L^H (or L D L^T) sytrf/hetrf; reads the lower triangle
//   info is 0 or the place where a factor broke down; factors of such matrices are LAPACK's.
// Accumulates in: the dtype, in LAPACK and BLAS.
// NaN, infinity: both spread.
// Error: backward error: a small multiple of n eps |A|.
// Source: Higham 2002, ch. 9-11.
#include "aten/cpu/small_matrices.h"
#include "aten/ops/linalg/matrices.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::ops {
namespace {

using namespace linalg;

// LAPACK leaves the other triangle as it was.
template <typename T>
void clear_triangle(T* a, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; ++j) {
    T* column = a + j * n;
    if (upper) {
      std::fill(column, column + j, T(0));
    } else {
      std::fill(column + j + 1, column + n, T(0));
    }
  }
}

void zero_pivot(std::string& text, int at) {
  text += text_of("U[", at, ",", at,
                  "] is zero: these factors solve no equations (linalg.lu and lu_factor_ex give "
                  "them unchecked)");
}
void unsolvable(std::string& text, int) {
  text += "the matrix is singular: its equations have no unique solution";
}

}  // namespace

void cholesky_ex_cpu(const Tensor& self, bool upper, bool check_errors, Tensor& L, Tensor& info) {
  const int64_t n = self.size(-1);
  copy_into(L, self);
  dispatch_lapack(self.dtype(), "linalg.cholesky", [&]<typename T>() {
    each_matrix(matrix_count(L), n, n, [&](int64_t i) {
      T* a = L.data_as<T>() + i * n * n;
      info.data_as<int>()[i] =
          lapack::potrf(upper ? 'U' : 'L', lapack::dimension("linalg.cholesky", n), a, leading(n));
      clear_triangle(a, n, !upper);
    });
  });
  if (check_errors) check_info("linalg.cholesky", info, not_positive_definite);
}

void lu_factor_cpu(const Tensor& A, std::string_view caller, bool check_errors, Tensor& LU,
                   Tensor& pivots, Tensor& info) {
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  copy_into(LU, A);
  dispatch_lapack(A.dtype(), "linalg.lu_factor", [&]<typename T>() {
    each_matrix(matrix_count(LU), m, n, [&](int64_t i) {
      info.data_as<int>()[i] = lapack::getrf(
          lapack::dimension("linalg.lu_factor", m), lapack::dimension("linalg.lu_factor", n),
          LU.data_as<T>() + i * m * n, leading(m), pivots.data_as<int>() + i * k);
    });
  });
  if (!check_errors) return;
  const bool solving = caller == "linalg.solve";
  check_info(std::string(caller).c_str(), info, solving ? unsolvable : zero_pivot);
}

namespace {

void invert_small(const Tensor& A, Tensor& inverse, Tensor& info) {
  const int64_t n = A.size(-1);
  const bool by_rows = A.is_contiguous();
  if (!by_rows) copy_into(inverse, A);
  const Tensor& source = by_rows ? A : inverse;
  dispatch_lapack(A.dtype(), "linalg.inv", [&]<typename T>() {
    const auto run = lapack::small::inverter<T>(n);
    parallel_for(0, matrix_count(A), linalg::cubic(n, n), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * n * n;
      run(end - begin, source.data_as<T>() + first, by_rows, inverse.data_as<T>() + first,
          info.data_as<int>() + begin);
    });
  });
}

void invert_large(const Tensor& A, Tensor& inverse, Tensor& info) {
  const int64_t n = A.size(-1);
  copy_into(inverse, A);
  dispatch_lapack(A.dtype(), "linalg.inv", [&]<typename T>() {
    each_matrix(matrix_count(inverse), n, n, [&](int64_t i) {
      const int size = lapack::dimension("linalg.inv", n);
      T* a = inverse.data_as<T>() + i * n * n;
      std::vector<int> pivots(static_cast<size_t>(n));
      int& status = info.data_as<int>()[i];
      status = n ? lapack::getrf(size, size, a, leading(n), pivots.data()) : 0;
      if (status == 0 && n) lapack::getri(size, a, leading(n), pivots.data());
    });
  });
}

}  // namespace

void inverse_cpu(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info) {
  const int64_t n = A.size(-1);
  const bool small = n > 0 && n <= lapack::small::kInverted;
  (small ? invert_small : invert_large)(A, inverse, info);
  if (check_errors) check_info("linalg.inv", info, singular);
}

void ldl_factor_ex_cpu(const Tensor& self, bool hermitian, bool check_errors, Tensor& LD,
                       Tensor& pivots, Tensor& info) {
  const int64_t n = self.size(-1);
  copy_into(LD, self);
  dispatch_lapack(self.dtype(), "linalg.ldl_factor", [&]<typename T>() {
    each_matrix(matrix_count(LD), n, n, [&](int64_t i) {
      T* a = LD.data_as<T>() + i * n * n;
      info.data_as<int>()[i] = lapack::sytrf(hermitian && is_complex_v<T>, 'L',
                                             lapack::dimension("linalg.ldl_factor", n), a,
                                             leading(n), pivots.data_as<int>() + i * n);
      clear_triangle(a, n, true);
    });
  });
  if (check_errors) check_info("linalg.ldl_factor", info, singular);
}

namespace {

// LAPACK exchanges rows by the pivots without a look at them.
void check_pivots(const char* op, const Tensor& pivots, int64_t n, bool signed_pairs) {
  const Tensor list = contiguous_tensor(pivots);
  for (int64_t i = 0; i < list.numel(); ++i) {
    const int64_t at = list.data_as<int>()[i];
    const bool pair = signed_pairs && at < 0;
    // A block of two, from its first row on; row i is the last of its matrix if i + 1 divides by n.
    const bool paired = pair && (i + 1) % n != 0 && list.data_as<int>()[i + 1] < 0;
    const int64_t row = pair ? -at : at;
    check(row >= 1 && row <= n && (!pair || paired), op, ": expected pivots between 1 and ", n,
          ", got ", at);
    if (paired) {
      const int64_t second = -int64_t{list.data_as<int>()[++i]};
      check(second <= n, op, ": expected pivots between 1 and ", n, ", got ", -second);
    }
  }
}

}  // namespace

void ldl_solve_cpu(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                   Tensor& result) {
  const int64_t n = LD.size(-1), columns = B.size(-1);
  check_pivots("linalg.ldl_solve", pivots, n, true);
  copy_into(result, B);
  const BroadcastMatrices factors(LD, batch_of(result)), order(pivots, batch_of(result), 1);
  dispatch_lapack(LD.dtype(), "linalg.ldl_solve", [&]<typename T>() {
    each_matrix(matrix_count(result), n, std::max(n, columns), [&](int64_t i) {
      lapack::sytrs(hermitian && is_complex_v<T>, 'L', lapack::dimension("linalg.ldl_solve", n),
                    lapack::dimension("linalg.ldl_solve", columns), factors.at<T>(i), leading(n),
                    order.at<int>(i), result.data_as<T>() + i * n * columns, leading(n));
    });
  });
}

// X with A X = B, A^H X = B and the like from A's factors. A itself is here for its gradient.
void factored_solve_cpu(const Tensor&, const Tensor& LU, const Tensor& pivots, const Tensor& B,
                        bool adjoint, Tensor& result) {
  const int64_t n = LU.size(-1), columns = B.size(-1);
  check_pivots("linalg.lu_solve", pivots, n, false);
  copy_into(result, B);
  const BroadcastMatrices factors(LU, batch_of(result)), order(pivots, batch_of(result), 1);
  dispatch_lapack(LU.dtype(), "linalg.solve", [&]<typename T>() {
    const char trans = !adjoint ? 'N' : is_complex_v<T> ? 'C' : 'T';
    each_matrix(matrix_count(result), n, std::max(n, columns), [&](int64_t i) {
      lapack::getrs(trans, lapack::dimension("linalg.solve", n),
                    lapack::dimension("linalg.solve", columns), factors.at<T>(i), leading(n),
                    order.at<int>(i), result.data_as<T>() + i * n * columns, leading(n));
    });
  });
}

// The rows that the exchanges of `pivots` (from 1) put in place: P[perm[i], i] = 1.
void pivots_to_permutation_cpu(const Tensor& pivots, int64_t rows, Tensor& result) {
  const Tensor from = contiguous_tensor(pivots);
  const int64_t k = pivots.size(-1), count = result.numel() / std::max<int64_t>(rows, 1);
  check(k <= rows, "lu_unpack: expected at most one pivot for each of ", rows, " rows, got ", k);
  for (int64_t b = 0; b < count; ++b) {
    int64_t* order = result.data_as<int64_t>() + b * rows;
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t pivot = from.data_as<int>()[b * k + i];
      check(pivot >= 1 && pivot <= rows, "lu_unpack: expected pivots between 1 and ", rows,
            ", got ", pivot);
      std::swap(order[i], order[pivot - 1]);
    }
  }
}

void solve_triangular_cpu(const Tensor& self, const Tensor& B, bool upper, bool left,
                          bool unitriangular, Tensor& result) {
  copy_into(result, B);
  if (result.numel() == 0) return;
  const int64_t m = result.size(-2), n = result.size(-1);
  const BroadcastMatrices triangles(self, batch_of(result), 2, /*may_transpose=*/true);
  // A transposed view is read as it lies: its other triangle, transposed.
  const char trans = triangles.transposed() ? 'T' : 'N';
  const char uplo = upper != triangles.transposed() ? 'U' : 'L';
  dispatch_lapack(result.dtype(), "linalg.solve_triangular", [&]<typename T>() {
    each_matrix(matrix_count(result), m, n, [&](int64_t i) {
      lapack::trsm(left ? 'L' : 'R', uplo, trans, unitriangular,
                   lapack::dimension("linalg.solve_triangular", m),
                   lapack::dimension("linalg.solve_triangular", n), triangles.at<T>(i),
                   triangles.leading(), result.data_as<T>() + i * m * n, leading(m));
    });
  });
}

}  // namespace flambeau::ops
