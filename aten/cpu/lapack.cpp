// LAPACK's Fortran entries behind the typed names of lapack.h.
#include "aten/cpu/lapack.h"

#include <cblas.h>
// The wheel's symbols carry a prefix that its lapack.h does not declare.
#define LAPACK_GLOBAL(lower, upper) scipy_##lower##_
#include <lapack.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "aten/cpu/parallel.h"
#include "aten/cpu/small_matrices.h"
#include "c10/core/check.h"

namespace flambeau::lapack {
namespace {

// The entry for T among the four of a routine.
template <typename T, typename S, typename D, typename C, typename Z>
constexpr auto entry(S s, D d, C c, Z z) {
  if constexpr (std::is_same_v<T, float>) {
    return s;
  } else if constexpr (std::is_same_v<T, double>) {
    return d;
  } else if constexpr (std::is_same_v<T, complex<float>>) {
    return c;
  } else {
    return z;
  }
}

// Our complex numbers as Fortran's: both are two reals side by side.
float* raw(float* p) { return p; }
double* raw(double* p) { return p; }
lapack_complex_float* raw(complex<float>* p) { return reinterpret_cast<lapack_complex_float*>(p); }
lapack_complex_double* raw(complex<double>* p) {
  return reinterpret_cast<lapack_complex_double*>(p);
}
const float* raw(const float* p) { return p; }
const double* raw(const double* p) { return p; }
const lapack_complex_float* raw(const complex<float>* p) {
  return reinterpret_cast<const lapack_complex_float*>(p);
}
const lapack_complex_double* raw(const complex<double>* p) {
  return reinterpret_cast<const lapack_complex_double*>(p);
}

int checked(const char* routine, int info) {
  check(info >= 0, routine, ": LAPACK refused argument ", -info);
  return info;
}

// The size that a workspace query answered. float cannot hold large sizes exactly: round up.
template <typename T>
int workspace_size(const T& answer) {
  if constexpr (is_complex_v<T>) {
    return workspace_size(answer.re);
  } else {
    return std::max(1, static_cast<int>(static_cast<double>(answer) *
                                        (1 + double(std::numeric_limits<T>::epsilon()))) +
                           1);
  }
}

// call(work, lwork, &info), once for the size and once for the result.
template <typename T, typename Call>
int with_workspace(const char* routine, const Call& call) {
  T answer{};
  int query = -1, info = 0;
  call(raw(&answer), &query, &info);
  checked(routine, info);
  int size = workspace_size(answer);
  std::vector<T> work(static_cast<size_t>(size));
  call(raw(work.data()), &size, &info);
  return checked(routine, info);
}

}  // namespace

int dimension(const char* op, int64_t n) {
  check(n <= std::numeric_limits<int>::max(), op, ": expected sizes below 2^31 for LAPACK, got ",
        n);
  return static_cast<int>(n);
}

BlasThreads::BlasThreads(int64_t n) {
  if (n > kSerialSize || in_parallel_region() || get_num_threads() == 1) return;
  changed_ = true;
  scipy_openblas_set_num_threads(1);
}
BlasThreads::~BlasThreads() {
  if (changed_) scipy_openblas_set_num_threads(get_num_threads());
}

template <typename T>
int potrf(char uplo, int n, T* a, int ld) {
  if (n <= small::kLimit) return small::potrf(uplo, n, a, ld);
  int info = 0;
  entry<T>(LAPACK_spotrf_base, LAPACK_dpotrf_base, LAPACK_cpotrf_base, LAPACK_zpotrf_base)(
      &uplo, &n, raw(a), &ld, &info, 1);
  return checked("potrf", info);
}

template <typename T>
int getrf(int m, int n, T* a, int ld, int* pivots) {
  if (std::max(m, n) <= small::kLimit) return small::getrf(m, n, a, ld, pivots);
  int info = 0;
  entry<T>(LAPACK_sgetrf, LAPACK_dgetrf, LAPACK_cgetrf, LAPACK_zgetrf)(&m, &n, raw(a), &ld, pivots,
                                                                       &info);
  return checked("getrf", info);
}

template <typename T>
int getri(int n, T* lu, int ld, const int* pivots) {
  if (n <= small::kLimit) {
    small::getri(n, lu, ld, pivots);
    return 0;
  }
  return with_workspace<T>("getri", [&](auto* work, int* size, int* info) {
    entry<T>(LAPACK_sgetri, LAPACK_dgetri, LAPACK_cgetri, LAPACK_zgetri)(&n, raw(lu), &ld, pivots,
                                                                         work, size, info);
  });
}

template <typename T>
void getrs(char trans, int n, int columns, const T* lu, int ld, const int* pivots, T* b, int ldb) {
  if (n <= small::kLimit && columns <= small::kLimit)
    return small::getrs(trans, n, columns, lu, ld, pivots, b, ldb);
  int info = 0;
  entry<T>(LAPACK_sgetrs_base, LAPACK_dgetrs_base, LAPACK_cgetrs_base, LAPACK_zgetrs_base)(
      &trans, &n, &columns, raw(lu), &ld, pivots, raw(b), &ldb, &info, 1);
  checked("getrs", info);
}

template <typename T>
int sytrf(bool hermitian, char uplo, int n, T* a, int ld, int* pivots) {
  return with_workspace<T>("sytrf", [&](auto* work, int* size, int* info) {
    const auto symmetric =
        entry<T>(LAPACK_ssytrf_base, LAPACK_dsytrf_base, LAPACK_csytrf_base, LAPACK_zsytrf_base);
    const auto adjoint =
        entry<T>(LAPACK_ssytrf_base, LAPACK_dsytrf_base, LAPACK_chetrf_base, LAPACK_zhetrf_base);
    (hermitian ? adjoint : symmetric)(&uplo, &n, raw(a), &ld, pivots, work, size, info, 1);
  });
}

template <typename T>
void sytrs(bool hermitian, char uplo, int n, int columns, const T* a, int ld, const int* pivots,
           T* b, int ldb) {
  const auto symmetric =
      entry<T>(LAPACK_ssytrs_base, LAPACK_dsytrs_base, LAPACK_csytrs_base, LAPACK_zsytrs_base);
  const auto adjoint =
      entry<T>(LAPACK_ssytrs_base, LAPACK_dsytrs_base, LAPACK_chetrs_base, LAPACK_zhetrs_base);
  int info = 0;
  (hermitian ? adjoint : symmetric)(&uplo, &n, &columns, raw(a), &ld, pivots, raw(b), &ldb, &info,
                                    1);
  checked("sytrs", info);
}

template <typename T>
void trsm(char side, char uplo, char trans, bool unit, int m, int n, const T* a, int ld, T* b,
          int ldb) {
  if (side == 'L' && m <= small::kLimit && n <= small::kLimit) {
    for (int j = 0; j < n; ++j)
      small::solve(uplo == 'U', trans, unit, m, a, ld, b + int64_t{j} * ldb);
    return;
  }
  const CBLAS_SIDE at = side == 'L' ? CblasLeft : CblasRight;
  const CBLAS_UPLO triangle = uplo == 'U' ? CblasUpper : CblasLower;
  const CBLAS_TRANSPOSE op = trans == 'N'   ? CblasNoTrans
                             : trans == 'T' ? CblasTrans
                                            : CblasConjTrans;
  const CBLAS_DIAG diagonal = unit ? CblasUnit : CblasNonUnit;
  const T one = T(1);
  if constexpr (std::is_same_v<T, float>) {
    scipy_cblas_strsm(CblasColMajor, at, triangle, op, diagonal, m, n, one, a, ld, b, ldb);
  } else if constexpr (std::is_same_v<T, double>) {
    scipy_cblas_dtrsm(CblasColMajor, at, triangle, op, diagonal, m, n, one, a, ld, b, ldb);
  } else if constexpr (std::is_same_v<T, complex<float>>) {
    scipy_cblas_ctrsm(CblasColMajor, at, triangle, op, diagonal, m, n, &one, a, ld, b, ldb);
  } else {
    scipy_cblas_ztrsm(CblasColMajor, at, triangle, op, diagonal, m, n, &one, a, ld, b, ldb);
  }
}

template <typename T>
void geqrf(int m, int n, T* a, int ld, T* tau) {
  with_workspace<T>("geqrf", [&](auto* work, int* size, int* info) {
    entry<T>(LAPACK_sgeqrf, LAPACK_dgeqrf, LAPACK_cgeqrf, LAPACK_zgeqrf)(
        &m, &n, raw(a), &ld, raw(tau), work, size, info);
  });
}

template <typename T>
void orgqr(int m, int n, int k, T* a, int ld, const T* tau) {
  with_workspace<T>("orgqr", [&](auto* work, int* size, int* info) {
    entry<T>(LAPACK_sorgqr, LAPACK_dorgqr, LAPACK_cungqr, LAPACK_zungqr)(
        &m, &n, &k, raw(a), &ld, raw(tau), work, size, info);
  });
}

template <typename T>
void geqrt(int m, int n, int nb, T* a, int ld, T* t) {
  std::vector<T> work(static_cast<size_t>(nb) * static_cast<size_t>(n));
  int info = 0;
  entry<T>(LAPACK_sgeqrt, LAPACK_dgeqrt, LAPACK_cgeqrt, LAPACK_zgeqrt)(
      &m, &n, &nb, raw(a), &ld, raw(t), &nb, raw(work.data()), &info);
  checked("geqrt", info);
}

template <typename T>
void gemqrt(int m, int n, int k, int nb, const T* a, int ld, const T* t, T* c) {
  std::vector<T> work(static_cast<size_t>(nb) * static_cast<size_t>(n));
  int info = 0;
  entry<T>(LAPACK_sgemqrt_base, LAPACK_dgemqrt_base, LAPACK_cgemqrt_base, LAPACK_zgemqrt_base)(
      "L", "N", &m, &n, &k, &nb, raw(a), &ld, raw(t), &nb, raw(c), &ld, raw(work.data()), &info, 1,
      1);
  checked("gemqrt", info);
}

template <typename T>
void ormqr(char side, bool adjoint, int m, int n, int k, const T* a, int ld, const T* tau, T* c,
           int ldc) {
  const char trans = !adjoint ? 'N' : is_complex_v<T> ? 'C' : 'T';
  with_workspace<T>("ormqr", [&](auto* work, int* size, int* info) {
    entry<T>(LAPACK_sormqr_base, LAPACK_dormqr_base, LAPACK_cunmqr_base, LAPACK_zunmqr_base)(
        &side, &trans, &m, &n, &k, raw(a), &ld, raw(tau), raw(c), &ldc, work, size, info, 1, 1);
  });
}

template <typename T>
int syevd(bool vectors, char uplo, int n, T* a, int ld, real_t<T>* w) {
  const char job = vectors ? 'V' : 'N';
  int integers = -1, reals = -1, info = 0, query = -1, integer_answer = 0;
  T answer{};
  real_t<T> real_answer = 0;
  const auto call = [&](T* work, int* size, real_t<T>* rwork, int* iwork) {
    if constexpr (is_complex_v<T>) {
      entry<T>(LAPACK_ssyevd_base, LAPACK_dsyevd_base, LAPACK_cheevd_base, LAPACK_zheevd_base)(
          &job, &uplo, &n, raw(a), &ld, w, raw(work), size, rwork, &reals, iwork, &integers, &info,
          1, 1);
    } else {
      entry<T>(LAPACK_ssyevd_base, LAPACK_dsyevd_base, LAPACK_cheevd_base, LAPACK_zheevd_base)(
          &job, &uplo, &n, a, &ld, w, work, size, iwork, &integers, &info, 1, 1);
    }
  };
  call(&answer, &query, &real_answer, &integer_answer);
  checked("syevd", info);
  int size = workspace_size(answer);
  reals = workspace_size(real_answer);
  integers = std::max(1, integer_answer);
  std::vector<T> work(static_cast<size_t>(size));
  std::vector<real_t<T>> rwork(static_cast<size_t>(reals));
  std::vector<int> iwork(static_cast<size_t>(integers));
  call(work.data(), &size, rwork.data(), iwork.data());
  return checked("syevd", info);
}

namespace {

// geev of a real matrix packs the vectors of a conjugate pair as real and imaginary part into two
// columns.
template <typename T>
void unpack_vectors(int n, const T* packed, const complex<T>* w, complex<T>* v, int ldv) {
  const auto place = [&](int64_t j) { return v + j * ldv; };
  for (int64_t j = 0; j < n; ++j) {
    const T* re = packed + j * n;
    if (w[j].im == 0) {
      for (int64_t i = 0; i < n; ++i) place(j)[i] = re[i];
      continue;
    }
    const T* im = re + n;
    for (int64_t i = 0; i < n; ++i) {
      place(j)[i] = {re[i], im[i]};
      place(j + 1)[i] = {re[i], -im[i]};
    }
    ++j;
  }
}

}  // namespace

template <typename T>
int geev(int n, T* a, int ld, complex<real_t<T>>* w, complex<real_t<T>>* v, int ldv) {
  using Real = real_t<T>;
  const char left = 'N', right = v ? 'V' : 'N';
  const int one = 1;
  if constexpr (is_complex_v<T>) {
    std::vector<Real> rwork(static_cast<size_t>(2 * n));
    return with_workspace<T>("geev", [&](auto* work, int* size, int* info) {
      const auto call = entry<T>(0, 0, LAPACK_cgeev_base, LAPACK_zgeev_base);
      call(&left, &right, &n, raw(a), &ld, raw(w), nullptr, &one, raw(v), v ? &ldv : &one, work,
           size, rwork.data(), info, 1, 1);
    });
  } else {
    const auto count = static_cast<size_t>(n);
    std::vector<Real> re(count), im(count), packed(v ? count * count : 0);
    const int info = with_workspace<T>("geev", [&](auto* work, int* size, int* status) {
      const auto call = entry<T>(LAPACK_sgeev_base, LAPACK_dgeev_base, 0, 0);
      call(&left, &right, &n, a, &ld, re.data(), im.data(), nullptr, &one, packed.data(),
           v ? &n : &one, work, size, status, 1, 1);
    });
    for (size_t i = 0; i < count; ++i) w[i] = {re[i], im[i]};
    if (v) unpack_vectors(n, packed.data(), w, v, ldv);
    return info;
  }
}

template <typename T>
int gesvd(bool divide_and_conquer, char job, int m, int n, T* a, int ld, real_t<T>* s, T* u,
          int ldu, T* vh, int ldvh) {
  const int64_t small = std::min(m, n), large = std::max(m, n);
  const int64_t reals = !is_complex_v<T>      ? 0
                        : !divide_and_conquer ? 5 * small
                        : job == 'N' ? 7 * small
                                     : small * std::max(5 * small + 7, 2 * large + 2 * small + 1);
  std::vector<real_t<T>> rwork(static_cast<size_t>(reals));
  std::vector<int> iwork(static_cast<size_t>(divide_and_conquer ? 8 * small : 0));
  return with_workspace<T>("gesvd", [&](auto* work, int* size, int* info) {
    if (divide_and_conquer) {
      const auto call =
          entry<T>(LAPACK_sgesdd_base, LAPACK_dgesdd_base, LAPACK_cgesdd_base, LAPACK_zgesdd_base);
      if constexpr (is_complex_v<T>) {
        call(&job, &m, &n, raw(a), &ld, s, raw(u), &ldu, raw(vh), &ldvh, work, size, rwork.data(),
             iwork.data(), info, 1);
      } else {
        call(&job, &m, &n, a, &ld, s, u, &ldu, vh, &ldvh, work, size, iwork.data(), info, 1);
      }
    } else {
      const auto call =
          entry<T>(LAPACK_sgesvd_base, LAPACK_dgesvd_base, LAPACK_cgesvd_base, LAPACK_zgesvd_base);
      if constexpr (is_complex_v<T>) {
        call(&job, &job, &m, &n, raw(a), &ld, s, raw(u), &ldu, raw(vh), &ldvh, work, size,
             rwork.data(), info, 1, 1);
      } else {
        call(&job, &job, &m, &n, a, &ld, s, u, &ldu, vh, &ldvh, work, size, info, 1, 1);
      }
    }
  });
}

template <typename T>
int gels(int m, int n, int columns, T* a, int ld, T* b, int ldb) {
  const char trans = 'N';
  return with_workspace<T>("gels", [&](auto* work, int* size, int* info) {
    entry<T>(LAPACK_sgels_base, LAPACK_dgels_base, LAPACK_cgels_base, LAPACK_zgels_base)(
        &trans, &m, &n, &columns, raw(a), &ld, raw(b), &ldb, work, size, info, 1);
  });
}

template <typename T>
int gelsy(int m, int n, int columns, T* a, int ld, T* b, int ldb, real_t<T> rcond, int* rank) {
  std::vector<int> order(static_cast<size_t>(std::max(n, 1)));
  std::vector<real_t<T>> rwork(static_cast<size_t>(is_complex_v<T> ? 2 * n : 0));
  return with_workspace<T>("gelsy", [&](auto* work, int* size, int* info) {
    const auto call = entry<T>(LAPACK_sgelsy, LAPACK_dgelsy, LAPACK_cgelsy, LAPACK_zgelsy);
    if constexpr (is_complex_v<T>) {
      call(&m, &n, &columns, raw(a), &ld, raw(b), &ldb, order.data(), &rcond, rank, work, size,
           rwork.data(), info);
    } else {
      call(&m, &n, &columns, a, &ld, b, &ldb, order.data(), &rcond, rank, work, size, info);
    }
  });
}

namespace {

// What the divide-and-conquer tree of gelsd needs, whose query answers for `work` alone.
template <typename T>
void gelsd_sizes(int m, int n, int columns, int64_t* reals, int64_t* integers) {
  constexpr int64_t kLeaf = 26;  // at least LAPACK's smallest subproblem (ilaenv, ispec 9)
  const int64_t small = std::max(1, std::min(m, n)), large = std::max(m, n);
  int64_t levels = 1;
  for (int64_t size = small; size > 1; size /= 2) ++levels;
  *integers = small * (3 * levels + 11);
  *reals = large * 10 + 2 * small * kLeaf + 8 * small * levels + 3 * kLeaf * columns +
           std::max((kLeaf + 1) * (kLeaf + 1), small * (1 + columns) + 2 * columns);
}

}  // namespace

template <typename T>
int gelss(bool divide_and_conquer, int m, int n, int columns, T* a, int ld, T* b, int ldb,
          real_t<T>* s, real_t<T> rcond, int* rank) {
  int64_t reals = 5 * std::min(m, n), integers = 0;
  if (divide_and_conquer) gelsd_sizes<T>(m, n, columns, &reals, &integers);
  std::vector<real_t<T>> rwork(
      static_cast<size_t>(is_complex_v<T> ? std::max<int64_t>(1, reals) : 0));
  std::vector<int> iwork(static_cast<size_t>(integers));
  return with_workspace<T>("gelss", [&](auto* work, int* size, int* info) {
    const auto fast = entry<T>(LAPACK_sgelsd, LAPACK_dgelsd, LAPACK_cgelsd, LAPACK_zgelsd);
    const auto plain = entry<T>(LAPACK_sgelss, LAPACK_dgelss, LAPACK_cgelss, LAPACK_zgelss);
    if constexpr (is_complex_v<T>) {
      if (divide_and_conquer) {
        fast(&m, &n, &columns, raw(a), &ld, raw(b), &ldb, s, &rcond, rank, work, size, rwork.data(),
             iwork.data(), info);
      } else {
        plain(&m, &n, &columns, raw(a), &ld, raw(b), &ldb, s, &rcond, rank, work, size,
              rwork.data(), info);
      }
    } else if (divide_and_conquer) {
      fast(&m, &n, &columns, a, &ld, b, &ldb, s, &rcond, rank, work, size, iwork.data(), info);
    } else {
      plain(&m, &n, &columns, a, &ld, b, &ldb, s, &rcond, rank, work, size, info);
    }
  });
}

template int potrf(char, int, float*, int);
template int getrf(int, int, float*, int, int*);
template int getri(int, float*, int, const int*);
template void getrs(char, int, int, const float*, int, const int*, float*, int);
template int sytrf(bool, char, int, float*, int, int*);
template void sytrs(bool, char, int, int, const float*, int, const int*, float*, int);
template void trsm(char, char, char, bool, int, int, const float*, int, float*, int);
template void geqrf(int, int, float*, int, float*);
template void orgqr(int, int, int, float*, int, const float*);
template void geqrt(int, int, int, float*, int, float*);
template void gemqrt(int, int, int, int, const float*, int, const float*, float*);
template void ormqr(char, bool, int, int, int, const float*, int, const float*, float*, int);
template int syevd(bool, char, int, float*, int, float*);
template int geev(int, float*, int, complex<float>*, complex<float>*, int);
template int gesvd(bool, char, int, int, float*, int, float*, float*, int, float*, int);
template int gels(int, int, int, float*, int, float*, int);
template int gelsy(int, int, int, float*, int, float*, int, float, int*);
template int gelss(bool, int, int, int, float*, int, float*, int, float*, float, int*);
template int potrf(char, int, double*, int);
template int getrf(int, int, double*, int, int*);
template int getri(int, double*, int, const int*);
template void getrs(char, int, int, const double*, int, const int*, double*, int);
template int sytrf(bool, char, int, double*, int, int*);
template void sytrs(bool, char, int, int, const double*, int, const int*, double*, int);
template void trsm(char, char, char, bool, int, int, const double*, int, double*, int);
template void geqrf(int, int, double*, int, double*);
template void orgqr(int, int, int, double*, int, const double*);
template void geqrt(int, int, int, double*, int, double*);
template void gemqrt(int, int, int, int, const double*, int, const double*, double*);
template void ormqr(char, bool, int, int, int, const double*, int, const double*, double*, int);
template int syevd(bool, char, int, double*, int, double*);
template int geev(int, double*, int, complex<double>*, complex<double>*, int);
template int gesvd(bool, char, int, int, double*, int, double*, double*, int, double*, int);
template int gels(int, int, int, double*, int, double*, int);
template int gelsy(int, int, int, double*, int, double*, int, double, int*);
template int gelss(bool, int, int, int, double*, int, double*, int, double*, double, int*);
template int potrf(char, int, complex<float>*, int);
template int getrf(int, int, complex<float>*, int, int*);
template int getri(int, complex<float>*, int, const int*);
template void getrs(char, int, int, const complex<float>*, int, const int*, complex<float>*, int);
template int sytrf(bool, char, int, complex<float>*, int, int*);
template void sytrs(bool, char, int, int, const complex<float>*, int, const int*, complex<float>*,
                    int);
template void trsm(char, char, char, bool, int, int, const complex<float>*, int, complex<float>*,
                   int);
template void geqrf(int, int, complex<float>*, int, complex<float>*);
template void orgqr(int, int, int, complex<float>*, int, const complex<float>*);
template void geqrt(int, int, int, complex<float>*, int, complex<float>*);
template void gemqrt(int, int, int, int, const complex<float>*, int, const complex<float>*,
                     complex<float>*);
template void ormqr(char, bool, int, int, int, const complex<float>*, int, const complex<float>*,
                    complex<float>*, int);
template int syevd(bool, char, int, complex<float>*, int, float*);
template int geev(int, complex<float>*, int, complex<float>*, complex<float>*, int);
template int gesvd(bool, char, int, int, complex<float>*, int, float*, complex<float>*, int,
                   complex<float>*, int);
template int gels(int, int, int, complex<float>*, int, complex<float>*, int);
template int gelsy(int, int, int, complex<float>*, int, complex<float>*, int, float, int*);
template int gelss(bool, int, int, int, complex<float>*, int, complex<float>*, int, float*, float,
                   int*);
template int potrf(char, int, complex<double>*, int);
template int getrf(int, int, complex<double>*, int, int*);
template int getri(int, complex<double>*, int, const int*);
template void getrs(char, int, int, const complex<double>*, int, const int*, complex<double>*, int);
template int sytrf(bool, char, int, complex<double>*, int, int*);
template void sytrs(bool, char, int, int, const complex<double>*, int, const int*, complex<double>*,
                    int);
template void trsm(char, char, char, bool, int, int, const complex<double>*, int, complex<double>*,
                   int);
template void geqrf(int, int, complex<double>*, int, complex<double>*);
template void orgqr(int, int, int, complex<double>*, int, const complex<double>*);
template void geqrt(int, int, int, complex<double>*, int, complex<double>*);
template void gemqrt(int, int, int, int, const complex<double>*, int, const complex<double>*,
                     complex<double>*);
template void ormqr(char, bool, int, int, int, const complex<double>*, int, const complex<double>*,
                    complex<double>*, int);
template int syevd(bool, char, int, complex<double>*, int, double*);
template int geev(int, complex<double>*, int, complex<double>*, complex<double>*, int);
template int gesvd(bool, char, int, int, complex<double>*, int, double*, complex<double>*, int,
                   complex<double>*, int);
template int gels(int, int, int, complex<double>*, int, complex<double>*, int);
template int gelsy(int, int, int, complex<double>*, int, complex<double>*, int, double, int*);
template int gelss(bool, int, int, int, complex<double>*, int, complex<double>*, int, double*,
                   double, int*);

}  // namespace flambeau::lapack
