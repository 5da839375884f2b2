// Products of two matrices, one or both of them sparse, on CPU.
// Formula: result[i, j] = sum over entries (i, p) of value * other[p, j].
// Accumulates in: that of _sum_rows (float32 for half types), which adds floating types in the
// order of the entries, on all threads; other types add in the dtype.
// NaN, infinity: both follow IEEE arithmetic at the entries; a NaN in `other` that meets no entry
// is not seen.
// Error: n eps of the sum of magnitudes of n terms.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/arithmetic_ops.h"
#include "torchgen_out/aten/embedding_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/sparse_kernels.h"
#include "torchgen_out/aten/sparse_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

void check_matrices(const Tensor& self, const Tensor& mat2) {
  for (const Tensor* t : {&self, &mat2}) {
    check(t->dim() == 2, "mm: expected matrices, got ", *t);
    check(!is_sparse(*t) || sparse_parts("mm", *t).sparse_dim() == 2,
          "mm: expected sparse matrices with 2 sparse dimensions, got ", *t);
  }
  check(self.size(1) == mat2.size(0), "mm: mat1 and mat2 shapes cannot be multiplied, got ", self,
        " and ", mat2);
  check(self.dtype() == mat2.dtype(), "mm: expected matrices of one dtype, got ", self, " and ",
        mat2);
}

// Row numbers and column numbers of the entries.
Tensor row_of(const Tensor& indices, int64_t row) { return select_int::call(indices, 0, row); }

Tensor times_dense(const Tensor& self, const Tensor& mat2) {
  const SparseParts parts = sparse_parts("mm", self);
  sparse_positions("mm", parts.indices, self.sizes());
  const Tensor rows = row_of(parts.indices, 0), columns = row_of(parts.indices, 1);
  if (mat2.is_floating_point())
    return _sum_rows::call(mat2, columns, rows, self.size(0), parts.values);
  const Tensor terms =
      mul_Tensor::call(index_select::call(mat2, 0, columns), unsqueeze::call(parts.values, 1));
  return sparse::add_rows(zeros_tensor({self.size(0), mat2.size(1)}, self.dtype()), rows, terms);
}

// Pairs of entries, one of each matrix, whose product is a term of the result.
struct Pairs {
  std::vector<int64_t> left, right, rows, columns;
};

Pairs pairs_of(const SparseParts& a, const SparseParts& b) {
  const auto* row = a.indices.data_as<int64_t>();
  const int64_t* const inner = row + a.count();
  const auto* first = b.indices.data_as<int64_t>();
  const int64_t* const last = first + b.count();
  Pairs pairs;
  for (int64_t i = 0; i < a.count(); ++i) {
    const auto range = std::equal_range(first, last, inner[i]);
    for (const int64_t* at = range.first; at != range.second; ++at) {
      pairs.left.push_back(i);
      pairs.right.push_back(at - first);
      pairs.rows.push_back(row[i]);
      pairs.columns.push_back(at[b.count()]);
    }
  }
  return pairs;
}

Tensor times_sparse(const Tensor& self, const Tensor& mat2) {
  const Tensor left = _coalesce::call(self), right = _coalesce::call(mat2);
  const SparseParts a = sparse_parts("mm", left);
  const SparseParts b = sparse_parts("mm", right);
  Pairs pairs = pairs_of(a, b);
  const auto count = static_cast<int64_t>(pairs.left.size());
  const Tensor values =
      mul_Tensor::call(index_select::call(a.values, 0, sparse::int64_tensor(pairs.left, {count})),
                       index_select::call(b.values, 0, sparse::int64_tensor(pairs.right, {count})));
  pairs.rows.insert(pairs.rows.end(), pairs.columns.begin(), pairs.columns.end());
  const Tensor indices = sparse::int64_tensor(pairs.rows, {2, count});
  return _coalesce::call(make_sparse("mm", {self.size(0), mat2.size(1)}, {indices, values, false}));
}

}  // namespace

Tensor mm_sparse_cpu(const Tensor& self, const Tensor& mat2) {
  check_matrices(self, mat2);
  if (!is_sparse(mat2)) return times_dense(self, mat2);
  if (is_sparse(self)) return times_sparse(self, mat2);
  return t::call(times_dense(t::call(mat2), t::call(self)));
}

Tensor mv_sparse_cpu(const Tensor& self, const Tensor& vec) {
  check(vec.dim() == 1 && !is_sparse(vec), "mv: expected a strided vector, got ", vec);
  return squeeze_dim::call(mm_sparse_cpu(self, unsqueeze::call(vec, 1)), 1);
}

// The matrices of the batch stand on the diagonal of one large sparse matrix.
Tensor bmm_sparse_cpu(const Tensor& self, const Tensor& mat2) {
  if (!is_sparse(self))
    return transpose_int::call(
        bmm_sparse_cpu(transpose_int::call(mat2, 1, 2), transpose_int::call(self, 1, 2)), 1, 2);
  const SparseParts parts = sparse_parts("bmm", self);
  check(!is_sparse(mat2) && parts.sparse_dim() == 3 && mat2.dim() == 3, "bmm: expected a sparse ",
        "batch of matrices with 3 sparse dimensions and a strided one, got ", self, " and ", mat2);
  const int64_t batch = self.size(0), rows = self.size(1), inner = self.size(2);
  check(mat2.size(0) == batch && mat2.size(1) == inner, "bmm: expected batches of matrices that ",
        "can be multiplied, got ", self, " and ", mat2);
  sparse_positions("bmm", parts.indices, self.sizes());
  const auto block = [&](int64_t row, int64_t size) {
    const Tensor first = mul_Scalar::call(row_of(parts.indices, 0), Scalar(size));
    return add_Tensor::call(first, row_of(parts.indices, row));
  };
  const Tensor places[] = {block(1, rows), block(2, inner)};
  const Tensor diagonal =
      make_sparse("bmm", {product_of("bmm", batch, rows), product_of("bmm", batch, inner)},
                  {_stack::call(places, 0), parts.values, false});
  const Tensor product =
      mm_sparse_cpu(diagonal, reshape::call(mat2, {product_of("bmm", batch, inner), mat2.size(2)}));
  return reshape::call(product, {batch, rows, mat2.size(2)});
}

Tensor addmm_sparse_cpu(const Tensor& self, const Tensor& mat1, const Tensor& mat2) {
  return add_Tensor::call(self, mm_sparse_cpu(mat1, mat2));
}

}  // namespace flambeau::ops
