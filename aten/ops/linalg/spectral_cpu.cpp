// Eigenvalues and singular values on CPU, by LAPACK, in place in column-major outputs.
// Formula:
//   eigh  A = V diag(w) V^H   syevd/heevd; reads one triangle; w ascends
//   eig   A V = V diag(w)     geev; vectors of norm 1
//   svd   A = U diag(s) V^H   gesdd (or gesvd, and after a gesdd that failed); s descends
//   Vectors are unique up to a phase at best.
// Accumulates in: the dtype, in LAPACK.
// NaN, infinity: in eig and svd: LinAlgError where LAPACK does not converge.
// Error: backward error: a small multiple of n eps |A|.
// Source: Anderson et al. 1999, "LAPACK Users' Guide".
#include <cmath>

#include "aten/ops/linalg/matrices.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::ops {
namespace {

using namespace linalg;

constexpr int kNotFinite = -1;  // in place of LAPACK's info

template <typename T>
bool all_finite(const T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (is_complex_v<T>) {
      if (!std::isfinite(values[i].re) || !std::isfinite(values[i].im)) return false;
    } else {
      if (!std::isfinite(values[i])) return false;
    }
  }
  return true;
}

Tensor new_info(IntArrayRef batch) { return empty_tensor(batch, ScalarType::Int32); }

}  // namespace

void eigh_cpu(const Tensor& A, std::string_view UPLO, bool compute_v, Tensor& eigenvalues,
              Tensor& eigenvectors) {
  const int64_t n = A.size(-1);
  const char uplo = UPLO == "U" || UPLO == "u" ? 'U' : 'L';
  Tensor vectors = compute_v ? eigenvectors : allocate(by_columns(A, batch_of(A), n, n));
  copy_into(vectors, A);
  const Tensor info = new_info(batch_of(A));
  dispatch_lapack(A.dtype(), "linalg.eigh", [&]<typename T>() {
    each_matrix(matrix_count(A), n, 2 * n, [&](int64_t i) {
      auto* values = eigenvalues.data_as<lapack::real_t<T>>() + i * n;
      info.data_as<int>()[i] =
          n ? lapack::syevd(compute_v, uplo, lapack::dimension("linalg.eigh", n),
                            vectors.data_as<T>() + i * n * n, leading(n), values)
            : 0;
    });
  });
  check_info("linalg.eigh", info, not_converged);
}

void eig_cpu(const Tensor& self, bool compute_v, Tensor& eigenvalues, Tensor& eigenvectors) {
  const int64_t n = self.size(-1);
  const Tensor scratch = allocate(by_columns(self, batch_of(self), n, n));
  copy_into(scratch, self);
  const Tensor info = new_info(batch_of(self));
  dispatch_lapack(self.dtype(), "linalg.eig", [&]<typename T>() {
    using Complex = complex<lapack::real_t<T>>;
    check(all_finite(scratch.data_as<T>(), scratch.numel()),
          "linalg.eig: expected finite elements, got infs or NaNs");
    each_matrix(matrix_count(self), n, 4 * n, [&](int64_t i) {
      Complex* vectors = compute_v ? eigenvectors.data_as<Complex>() + i * n * n : nullptr;
      info.data_as<int>()[i] =
          n ? lapack::geev(lapack::dimension("linalg.eig", n), scratch.data_as<T>() + i * n * n,
                           leading(n), eigenvalues.data_as<Complex>() + i * n, vectors, leading(n))
            : 0;
    });
  });
  check_info("linalg.eig", info, not_converged);
}

namespace {

// One matrix of m x n. The factors of a matrix without elements are identities.
template <typename T>
int svd_of(char job, bool divide, int64_t m, int64_t n, T* a, lapack::real_t<T>* s, T* u, T* vh) {
  const int64_t k = std::min(m, n);
  const int64_t vh_rows = job == 'A' ? n : k;
  if (k == 0) {
    if (job != 'A') return 0;
    for (int64_t i = 0; i < m * m; ++i) u[i] = T(i % (m + 1) == 0 ? 1 : 0);
    for (int64_t i = 0; i < n * n; ++i) vh[i] = T(i % (n + 1) == 0 ? 1 : 0);
    return 0;
  }
  if (!all_finite(a, m * n)) return kNotFinite;
  std::vector<T> kept;
  if (divide) kept.assign(a, a + m * n);
  const int rows = lapack::dimension("linalg.svd", m), columns = lapack::dimension("linalg.svd", n);
  int info = lapack::gesvd(divide, job, rows, columns, a, leading(m), s, u, leading(m), vh,
                           leading(job == 'N' ? 1 : vh_rows));
  if (info > 0 && divide) {  // QR iteration converges where divide and conquer does not
    std::copy(kept.begin(), kept.end(), a);
    info = lapack::gesvd(false, job, rows, columns, a, leading(m), s, u, leading(m), vh,
                         leading(job == 'N' ? 1 : vh_rows));
  }
  return info;
}

}  // namespace

void svd_cpu(const Tensor& A, bool full_matrices, bool compute_uv,
             std::optional<std::string_view> driver, Tensor& U, Tensor& S, Tensor& Vh) {
  check(!driver, "linalg.svd: expected driver=None on the CPU, got '", driver.value_or(""),
        "', a method of cuSOLVER");
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const char job = !compute_uv ? 'N' : full_matrices ? 'A' : 'S';
  const Tensor scratch = allocate(by_columns(A, batch_of(A), m, n));
  copy_into(scratch, A);
  const Tensor info = new_info(batch_of(A));
  dispatch_lapack(A.dtype(), "linalg.svd", [&]<typename T>() {
    each_matrix(matrix_count(A), m, 4 * n, [&](int64_t i) {
      T* u = compute_uv ? U.data_as<T>() + i * U.size(-1) * m : nullptr;
      T* vh = compute_uv ? Vh.data_as<T>() + i * Vh.size(-2) * n : nullptr;
      info.data_as<int>()[i] = svd_of(job, true, m, n, scratch.data_as<T>() + i * m * n,
                                      S.data_as<lapack::real_t<T>>() + i * k, u, vh);
    });
  });
  check_info("linalg.svd", info, [](std::string& text, int at) {
    text += at == kNotFinite ? text_of("failed to converge: the matrix holds non-finite values")
                             : text_of(
                                   "failed to converge: the matrix may be ill-conditioned, or too "
                                   "many singular values equal (error code: ",
                                   at, ")");
  });
}

}  // namespace flambeau::ops
