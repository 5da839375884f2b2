#pragma once
// Factors and triangular solutions of matrices so small that a call of LAPACK costs more than the
// work: plain loops by columns, with LAPACK's conventions (column-major, pivots from 1, info).
// Unblocked algorithms of Golub & Van Loan 2013, sec. 3.1, 3.4 and 4.2.
#include <cmath>
#include <cstdint>
#include <utility>

#include "c10/core/complex.h"

namespace flambeau::lapack::small {

// The largest side that the loops serve.
inline constexpr int kLimit = 12;

template <typename T>
T conjugate(T x) {
  if constexpr (is_complex_v<T>) {
    return {x.re, -x.im};
  } else {
    return x;
  }
}
// What LAPACK compares pivots by.
template <typename T>
auto weight(T x) {
  if constexpr (is_complex_v<T>) {
    return std::abs(x.re) + std::abs(x.im);
  } else {
    return std::abs(x);
  }
}

template <typename T>
int64_t pivot_row(const T* column, int64_t from, int64_t rows) {
  int64_t best = from;
  for (int64_t i = from + 1; i < rows; ++i) {
    if (weight(column[i]) > weight(column[best])) best = i;
  }
  return best;
}

template <typename T>
int getrf(int64_t m, int64_t n, T* a, int64_t ld, int* pivots) {
  int info = 0;
  for (int64_t k = 0; k < (m < n ? m : n); ++k) {
    T* column = a + k * ld;
    const int64_t p = pivot_row(column, k, m);
    pivots[k] = static_cast<int>(p + 1);
    if (column[p] == T(0)) {
      if (info == 0) info = static_cast<int>(k + 1);
      continue;
    }
    if (p != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(a[k + j * ld], a[p + j * ld]);
    }
    for (int64_t i = k + 1; i < m; ++i) column[i] = column[i] / column[k];
    for (int64_t j = k + 1; j < n; ++j) {
      const T factor = a[k + j * ld];
      for (int64_t i = k + 1; i < m; ++i) a[i + j * ld] = a[i + j * ld] - column[i] * factor;
    }
  }
  return info;
}

// Both triangles by one loop: the upper factor is the lower one of the conjugate, transposed.
template <typename T>
int potrf(char uplo, int64_t n, T* a, int64_t ld) {
  const int64_t row = uplo == 'L' ? 1 : ld, column = uplo == 'L' ? ld : 1;
  const auto at = [&](int64_t i, int64_t j) -> T& { return a[i * row + j * column]; };
  for (int64_t j = 0; j < n; ++j) {
    T pivot = at(j, j);
    for (int64_t k = 0; k < j; ++k) pivot = pivot - at(j, k) * conjugate(at(j, k));
    if constexpr (is_complex_v<T>) {
      if (!(pivot.re > 0)) return static_cast<int>(j + 1);
      pivot = T(std::sqrt(pivot.re));
    } else {
      if (!(pivot > 0)) return static_cast<int>(j + 1);
      pivot = std::sqrt(pivot);
    }
    at(j, j) = pivot;
    for (int64_t i = j + 1; i < n; ++i) {
      T sum = at(i, j);
      for (int64_t k = 0; k < j; ++k) sum = sum - at(i, k) * conjugate(at(j, k));
      at(i, j) = sum / pivot;
    }
  }
  return 0;
}

// One right-hand side: b <- op(A)^-1 b, A triangular.
template <typename T>
void solve(bool upper, char trans, bool unit, int64_t n, const T* a, int64_t ld, T* b) {
  const bool forward = upper == (trans != 'N');
  for (int64_t step = 0; step < n; ++step) {
    const int64_t k = forward ? step : n - 1 - step;
    const T* column = a + k * ld;
    if (trans == 'N') {
      if (!unit) b[k] = b[k] / column[k];
      const int64_t begin = upper ? 0 : k + 1, end = upper ? k : n;
      for (int64_t i = begin; i < end; ++i) b[i] = b[i] - b[k] * column[i];
      continue;
    }
    T sum = b[k];
    const int64_t begin = forward ? 0 : k + 1, end = forward ? k : n;
    for (int64_t i = begin; i < end; ++i)
      sum = sum - (trans == 'C' ? conjugate(column[i]) : column[i]) * b[i];
    if (!unit) sum = sum / (trans == 'C' ? conjugate(column[k]) : column[k]);
    b[k] = sum;
  }
}

template <typename T>
void getrs(char trans, int64_t n, int64_t columns, const T* lu, int64_t ld, const int* pivots, T* b,
           int64_t ldb) {
  for (int64_t j = 0; j < columns; ++j) {
    T* side = b + j * ldb;
    if (trans == 'N') {
      for (int64_t i = 0; i < n; ++i) std::swap(side[i], side[pivots[i] - 1]);
      solve(false, trans, true, n, lu, ld, side);
      solve(true, trans, false, n, lu, ld, side);
    } else {
      solve(true, trans, false, n, lu, ld, side);
      solve(false, trans, true, n, lu, ld, side);
      for (int64_t i = n - 1; i >= 0; --i) std::swap(side[i], side[pivots[i] - 1]);
    }
  }
}

// Overwrites the factors by the inverse: the solutions for the columns of the identity.
template <typename T>
void getri(int64_t n, T* lu, int64_t ld, const int* pivots) {
  T inverse[kLimit * kLimit] = {};
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = T(1);
  getrs('N', n, n, lu, ld, pivots, inverse, n);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) lu[i + j * ld] = inverse[i + j * n];
  }
}

// Sizes that `invert` serves.
inline constexpr int64_t kInverted = 8;

// Row operations on a matrix and its inverse to be, for sizes known at compile time.
template <int64_t kSize, typename T>
class Elimination {
 public:
  // Element (i, j) at from[i * row + j * column].
  Elimination(const T* from, int64_t row, int64_t column) {
    for (int64_t i = 0; i < kSize; ++i) {
      for (int64_t j = 0; j < kSize; ++j) {
        a_[i][j] = from[i * row + j * column];
        x_[i][j] = T(i == j ? 1 : 0);
      }
    }
  }
  // Lower triangle: info as getrf's.
  int forward() {
    for (int64_t k = 0; k < kSize; ++k) {
      int64_t p = k;
      for (int64_t i = k + 1; i < kSize; ++i) p = weight(a_[i][k]) > weight(a_[p][k]) ? i : p;
      if (a_[p][k] == T(0)) return static_cast<int>(k + 1);
      for (int64_t j = 0; j < kSize; ++j) {
        std::swap(a_[k][j], a_[p][j]);
        std::swap(x_[k][j], x_[p][j]);
      }
      pivot_[k] = T(1) / a_[k][k];  // dividing by it costs several products
      for (int64_t i = k + 1; i < kSize; ++i) {
        const T factor = a_[i][k] * pivot_[k];
        for (int64_t j = k + 1; j < kSize; ++j) a_[i][j] = a_[i][j] - factor * a_[k][j];
        for (int64_t j = 0; j < kSize; ++j) x_[i][j] = x_[i][j] - factor * x_[k][j];
      }
    }
    return 0;
  }
  void backward() {
    for (int64_t k = kSize - 1; k >= 0; --k) {
      for (int64_t j = 0; j < kSize; ++j) x_[k][j] = x_[k][j] * pivot_[k];
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < kSize; ++j) x_[i][j] = x_[i][j] - a_[i][k] * x_[k][j];
      }
    }
  }
  void store(T* to) const {  // by columns
    for (int64_t j = 0; j < kSize; ++j) {
      for (int64_t i = 0; i < kSize; ++i) to[j * kSize + i] = x_[i][j];
    }
  }

 private:
  T a_[kSize][kSize], x_[kSize][kSize], pivot_[kSize];
};

// Inverts `count` matrices that lie one after the other, by columns in `to`; a singular one leaves
// what was reached.
template <int64_t kSize, typename T>
void invert(int64_t count, const T* from, bool by_rows, T* to, int* info) {
  for (int64_t m = 0; m < count; ++m, from += kSize * kSize, to += kSize * kSize) {
    Elimination<kSize, T> work(from, by_rows ? kSize : 1, by_rows ? 1 : kSize);
    info[m] = work.forward();
    if (info[m] == 0) work.backward();
    work.store(to);
  }
}

// The function for side n <= kInverted.
template <typename T, int64_t kSize = 1>
auto inverter(int64_t n) -> void (*)(int64_t, const T*, bool, T*, int*) {
  if constexpr (kSize < kInverted) {
    if (n > kSize) return inverter<T, kSize + 1>(n);
  }
  return &invert<kSize, T>;
}

}  // namespace flambeau::lapack::small
