// Orthogonal factors on CPU, by LAPACK, in place in column-major outputs.
// Formula:
//   geqrf   A = Q R as reflectors H_i = I - tau_i v_i v_i^H, v_i below the diagonal of `a`
//   qr      the same, with Q multiplied out: min(m, n) columns, or all m. From kBlock reflectors
//           on they are kept in compact form (Schreiber and Van Loan 1989).
//   R's diagonal is real but may be negative, which makes the factors unique.
// Accumulates in: the dtype, in LAPACK and BLAS.
// NaN, infinity: both spread.
// Error: backward error: a small multiple of n eps |A|.
// Source: Higham 2002, th. 19.4; Schreiber and Van Loan 1989.
#include "aten/ops/linalg/matrices.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::ops {
namespace {

using namespace linalg;

}  // namespace

void geqrf_cpu(const Tensor& self, Tensor& a, Tensor& tau) {
  const int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  copy_into(a, self);
  if (k == 0) return;
  dispatch_lapack(self.dtype(), "geqrf", [&]<typename T>() {
    each_matrix(matrix_count(a), m, n, [&](int64_t i) {
      lapack::geqrf(lapack::dimension("geqrf", m), lapack::dimension("geqrf", n),
                    a.data_as<T>() + i * m * n, leading(m), tau.data_as<T>() + i * k);
    });
  });
}

namespace {

// The first columns of a product of reflectors; `q` holds the reflectors and takes the product.
template <typename T>
void multiply_out(T* q, int64_t rows, int64_t columns, int64_t reflectors, const T* tau) {
  if (columns == 0) return;
  lapack::orgqr(static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(reflectors), q,
                leading(rows), tau);
}

template <typename T>
void keep_upper(T* r, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    std::fill(r + j * rows + std::min(j + 1, rows), r + (j + 1) * rows, T(0));
}

constexpr int64_t kBlock = 64;

// Columns of Q in blocks, side by side where there are threads. A column of the identity is changed
// by the reflectors up to its own place only.
template <typename T>
void multiply_out_blocks(const T* a, const T* t, int64_t m, int64_t n, T* q, int64_t q_columns) {
  const int64_t k = std::min(m, n);
  const int64_t blocks = (q_columns + kBlock - 1) / kBlock;
  const auto block = [&](int64_t i) {
    const int64_t first = i * kBlock, count = std::min(kBlock, q_columns - first);
    T* columns = q + first * m;
    std::fill(columns, columns + count * m, T(0));
    for (int64_t j = 0; j < count; ++j) columns[j * m + first + j] = T(1);
    lapack::gemqrt(static_cast<int>(m), static_cast<int>(count),
                   static_cast<int>(std::min(k, first + kBlock)), static_cast<int>(kBlock), a,
                   leading(m), t, columns);
  };
  const auto pair = [&](int64_t i) {  // pairs of a cheap and an expensive column cost the same
    block(i);
    if (blocks - 1 - i != i) block(blocks - 1 - i);
  };
  const int64_t pairs = (blocks + 1) / 2;
  if (std::max(m, n) > lapack::kSerialSize) {  // BLAS has the threads
    for (int64_t i = 0; i < pairs; ++i) pair(i);
    return;
  }
  parallel_for(0, pairs, 4 * m * k * kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pair(i);
  });
}

template <typename T>
void qr_in_blocks(T* scratch, int64_t m, int64_t n, T* q, int64_t q_columns, T* r, int64_t r_rows) {
  const int64_t k = std::min(m, n);
  std::vector<T> t(static_cast<size_t>(kBlock * k));
  lapack::geqrt(lapack::dimension("linalg.qr", m), lapack::dimension("linalg.qr", n),
                static_cast<int>(kBlock), scratch, leading(m), t.data());
  for (int64_t j = 0; j < n; ++j) std::copy_n(scratch + j * m, r_rows, r + j * r_rows);
  keep_upper(r, r_rows, n);
  if (q) multiply_out_blocks(scratch, t.data(), m, n, q, q_columns);
}

// One matrix: `scratch` (m x max(n, columns of q)) holds the reflectors.
template <typename T>
void qr_of(T* scratch, int64_t m, int64_t n, T* q, int64_t q_columns, T* r, int64_t r_rows) {
  const int64_t k = std::min(m, n);
  if (k >= kBlock) return qr_in_blocks(scratch, m, n, q, q_columns, r, r_rows);
  std::vector<T> tau(static_cast<size_t>(k));
  if (k) {
    lapack::geqrf(lapack::dimension("linalg.qr", m), lapack::dimension("linalg.qr", n), scratch,
                  leading(m), tau.data());
  }
  for (int64_t j = 0; j < n; ++j) std::copy_n(scratch + j * m, r_rows, r + j * r_rows);
  keep_upper(r, r_rows, n);
  if (!q) return;
  std::copy_n(scratch, m * std::min(n, q_columns), q);
  std::fill(q + m * std::min(n, q_columns), q + m * q_columns, T(0));
  multiply_out(q, m, q_columns, k, tau.data());
}

}  // namespace

void qr_cpu(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R) {
  const int64_t m = A.size(-2), n = A.size(-1);
  const Tensor scratch = allocate(by_columns(A, batch_of(A), m, n));
  copy_into(scratch, A);
  dispatch_lapack(A.dtype(), "linalg.qr", [&]<typename T>() {
    each_matrix(matrix_count(A), m, n, [&](int64_t i) {
      const int64_t columns = mode == "complete" ? m : std::min(m, n);
      T* q = mode == "r" ? nullptr : Q.data_as<T>() + i * m * columns;
      qr_of(scratch.data_as<T>() + i * m * n, m, n, q, columns, R.data_as<T>() + i * columns * n,
            columns);
    });
  });
}

void householder_product_cpu(const Tensor& input, const Tensor& tau, Tensor& result) {
  const int64_t m = input.size(-2), n = input.size(-1), k = tau.size(-1);
  copy_into(result, input);
  if (result.numel() == 0) return;
  const Tensor scales = contiguous_tensor(tau);
  dispatch_lapack(input.dtype(), "linalg.householder_product", [&]<typename T>() {
    each_matrix(matrix_count(result), m, n, [&](int64_t i) {
      multiply_out(result.data_as<T>() + i * m * n, m, n, k, scales.data_as<T>() + i * k);
    });
  });
}

void ormqr_cpu(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left,
               bool transpose, Tensor& result) {
  const int64_t m = result.size(-2), n = result.size(-1), k = input2.size(-1);
  copy_into(result, input3);
  if (result.numel() == 0 || k == 0) return;
  const Tensor reflectors = columns_of(self), scales = contiguous_tensor(input2);
  const int64_t rows = self.size(-2), step = rows * self.size(-1);
  dispatch_lapack(self.dtype(), "ormqr", [&]<typename T>() {
    each_matrix(matrix_count(result), m, n, [&](int64_t i) {
      lapack::ormqr(left ? 'L' : 'R', transpose, lapack::dimension("ormqr", m),
                    lapack::dimension("ormqr", n), lapack::dimension("ormqr", k),
                    reflectors.data_as<T>() + i * step, leading(rows), scales.data_as<T>() + i * k,
                    result.data_as<T>() + i * m * n, leading(m));
    });
  });
}

}  // namespace flambeau::ops
