#pragma once
// LAPACK for the four types that it knows, as overloads of one name. Matrices are column-major
// with `ld` elements between columns. Functions return LAPACK's info: 0, or where the algorithm
// gave up (k > 0: at the k-th pivot, minor or diagonal); wrong arguments are mistakes of the caller
// and throw. Workspace is allocated within.
#include <cstdint>

#include "c10/core/complex.h"

namespace flambeau::lapack {

template <typename T>
struct real_of {
  using type = T;
};
template <typename T>
struct real_of<complex<T>> {
  using type = T;
};
template <typename T>
using real_t = typename real_of<T>::type;

// LAPACK's dimensions have 32 bits; RuntimeError naming the operator for larger ones.
int dimension(const char* op, int64_t n);

// Below this size threads cost OpenBLAS's LAPACK more than they bring.
inline constexpr int64_t kSerialSize = 512;
// While alive, BLAS runs in its caller for matrices up to that size.
// `n`: the larger side of the matrix.
class BlasThreads {
 public:
  explicit BlasThreads(int64_t n);
  ~BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  bool changed_ = false;
};

// --- triangular and general systems ---
template <typename T>
int potrf(char uplo, int n, T* a, int ld);
template <typename T>
int getrf(int m, int n, T* a, int ld, int* pivots);
// Overwrites the factors of getrf by the inverse.
template <typename T>
int getri(int n, T* lu, int ld, const int* pivots);
// trans: N, T or C.
template <typename T>
void getrs(char trans, int n, int columns, const T* lu, int ld, const int* pivots, T* b, int ldb);
// Symmetric (or Hermitian) indefinite factors L D L^H with pivots in blocks of one and two.
template <typename T>
int sytrf(bool hermitian, char uplo, int n, T* a, int ld, int* pivots);
template <typename T>
void sytrs(bool hermitian, char uplo, int n, int columns, const T* a, int ld, const int* pivots,
           T* b, int ldb);
// B <- op(A)^-1 B (side L) or B op(A)^-1 (side R), A triangular.
template <typename T>
void trsm(char side, char uplo, char trans, bool unit, int m, int n, const T* a, int ld, T* b,
          int ldb);

// --- orthogonal factors ---
template <typename T>
void geqrf(int m, int n, T* a, int ld, T* tau);
// The first n columns of the product of k reflectors, in place.
template <typename T>
void orgqr(int m, int n, int k, T* a, int ld, const T* tau);
// The same factors in compact form: blocks of `nb` reflectors, whose triangular factors t (nb rows,
// min(m, n) columns) let all that follows be products of matrices.
template <typename T>
void geqrt(int m, int n, int nb, T* a, int ld, T* t);
// C (m x n) <- Q C for the first k reflectors of geqrt, a multiple of nb or all; c has a's ld.
template <typename T>
void gemqrt(int m, int n, int k, int nb, const T* a, int ld, const T* t, T* c);
// C <- Q C, Q^H C, C Q or C Q^H; k reflectors. trans: N, or C for the adjoint.
template <typename T>
void ormqr(char side, bool adjoint, int m, int n, int k, const T* a, int ld, const T* tau, T* c,
           int ldc);

// --- eigenvalues and singular values ---
// Ascending eigenvalues into w; eigenvectors overwrite a where wanted.
template <typename T>
int syevd(bool vectors, char uplo, int n, T* a, int ld, real_t<T>* w);
// Right eigenvectors into v unless it is null, with Euclidean norm 1. Destroys a.
template <typename T>
int geev(int n, T* a, int ld, complex<real_t<T>>* w, complex<real_t<T>>* v, int ldv);
// How many singular vectors: all (A), the first min(m, n) (S), none (N). Destroys a.
// divide_and_conquer: gesdd, else the slower and more accurate gesvd.
template <typename T>
int gesvd(bool divide_and_conquer, char job, int m, int n, T* a, int ld, real_t<T>* s, T* u,
          int ldu, T* vh, int ldvh);

// --- least squares ---
// B (max(m, n) rows) <- minimum-norm solution of min |A X - B|; destroys a. gels needs full rank.
template <typename T>
int gels(int m, int n, int columns, T* a, int ld, T* b, int ldb);
template <typename T>
int gelsy(int m, int n, int columns, T* a, int ld, T* b, int ldb, real_t<T> rcond, int* rank);
// By singular values, largest first into s. divide_and_conquer: gelsd, else gelss.
template <typename T>
int gelss(bool divide_and_conquer, int m, int n, int columns, T* a, int ld, T* b, int ldb,
          real_t<T>* s, real_t<T> rcond, int* rank);

}  // namespace flambeau::lapack
