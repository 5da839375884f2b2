#pragma once
// What the kernels and shape rules of linear algebra share: argument checks, column-major
// outputs (LAPACK works in place in them) and loops over the matrices of a batch.
#include <algorithm>
#include <string>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/out_spec.h"
#include "aten/core/shape.h"
#include "aten/cpu/lapack.h"
#include "aten/cpu/parallel.h"

namespace flambeau::linalg {

// --- checks -------------------------------------------------------------------------------------

// LAPACK knows single and double precision, real and complex. Half types are NotImplementedError,
// as in PyTorch; what integers and bool are differs between its operators.
void check_lapack_dtype(const char* op, const Tensor& t, ErrorKind integers = ErrorKind::Runtime);
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
void check_matrices(const char* op, const Tensor& t, const char* name = "A");
void check_square(const char* op, const Tensor& t, const char* name = "A");
// Both of the above and the dtype.
void check_square_lapack(const char* op, const Tensor& t, const char* name = "A",
                         ErrorKind integers = ErrorKind::Runtime);

// Throws LinAlgError for the first matrix whose info is not 0; `reason` describes a positive info.
void check_info(const char* op, const Tensor& info, void (*reason)(std::string& text, int info));
void singular(std::string& text, int info);
void not_positive_definite(std::string& text, int info);
void not_converged(std::string& text, int info);

// --- sizes --------------------------------------------------------------------------------------

inline IntArrayRef batch_of(const Tensor& t) {
  return t.sizes().slice(0, static_cast<size_t>(t.dim() - 2));
}
inline DimVector batch_with(IntArrayRef batch, std::initializer_list<int64_t> last) {
  DimVector sizes = batch;
  for (const int64_t n : last) sizes.push_back(n);
  return sizes;
}

// Outputs: matrices by columns, or anything row-major.
OutSpec by_columns(const Tensor& like, IntArrayRef batch, int64_t rows, int64_t columns);
OutSpec by_rows(const Tensor& like, DimVector sizes, ScalarType dtype);

// --- loops --------------------------------------------------------------------------------------

// Cost per matrix, for parallel_for: a call and the cube of its sizes.
inline int64_t cubic(int64_t m, int64_t n) { return 512 + 4 * m * n * std::min(m, n); }

// body(i) for the matrices of a batch, in parallel where that pays; one matrix may use BLAS's
// threads.
template <typename Body>
void each_matrix(int64_t count, int64_t m, int64_t n, const Body& body) {
  if (count == 0) return;
  const lapack::BlasThreads threads(std::max(m, n));
  parallel_for(0, count, cubic(m, n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

inline int64_t matrix_count(const Tensor& t) { return numel_of(batch_of(t)); }

// Leading dimension of a column-major matrix with this many rows.
inline int leading(int64_t rows) { return static_cast<int>(std::max<int64_t>(rows, 1)); }

template <typename F>
void dispatch_lapack(ScalarType dtype, const char* op, F&& f) {
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Complex64,
                 ScalarType::Complex128>(dtype, op, static_cast<F&&>(f));
}

// Read-only matrices (or vectors: `last` = 1) that broadcast to a batch. Where they do not lie by
// columns already they are copied, once each, before broadcasting; matrices that lie by rows may be
// read as their transposes instead when `may_transpose`.
class BroadcastMatrices {
 public:
  BroadcastMatrices(const Tensor& t, IntArrayRef batch, int64_t last = 2,
                    bool may_transpose = false);
  template <typename T>
  const T* at(int64_t i) const {
    return data_.data_as<T>() + (offsets_.empty() ? i * step_ : offsets_[static_cast<size_t>(i)]);
  }
  bool transposed() const { return transposed_; }
  int leading() const { return leading_; }

 private:
  Tensor data_;
  int64_t step_ = 0;
  int leading_ = 1;
  bool transposed_ = false;
  std::vector<int64_t> offsets_;  // where the batch really broadcasts
};

// The batch by columns: the tensor itself when it is so, else a copy.
Tensor columns_of(const Tensor& t);

}  // namespace flambeau::linalg
