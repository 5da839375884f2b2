// Sums and questions over sparse tensors on CPU.
// Formula: the sum over the entries: elements without an entry are 0, which adds nothing. Entries
// of one place are added up first where the reduction is not linear.
// Accumulates in: that of the reductions of the values; int64 for integers.
// NaN, infinity: both follow IEEE arithmetic.
// Error: that of the reductions of the values.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/reduction_ops.h"
#include "torchgen_out/aten/sparse_kernels.h"
#include "torchgen_out/aten/sparse_rules.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

bool has(uint64_t mask, int64_t dim) { return mask >> dim & 1; }

uint64_t reduced_mask(const Tensor& self, std::optional<IntArrayRef> dim) {
  if (dim) return dim_mask(*dim, self.dim());  // an empty list reduces nothing, unlike strided ones
  return self.dim() == 64 ? ~uint64_t{0} : (uint64_t{1} << self.dim()) - 1;
}

Tensor without_dense(const SparseParts& parts, uint64_t mask, std::optional<ScalarType> dtype) {
  DimVector dims;
  for (int64_t d = 1; d < parts.values.dim(); ++d) {
    if (has(mask, parts.sparse_dim() + d - 1)) dims.push_back(d);
  }
  if (!dims.empty()) return sum_dim_IntList::call(parts.values, IntArrayRef(dims), false, dtype);
  const ScalarType given = parts.values.dtype();
  const bool widens = !is_floating_type(given) && !is_complex_type(given);
  return to_dtype::call(parts.values, dtype.value_or(widens ? ScalarType::Int64 : given));
}

Tensor sum_without(const Tensor& self, uint64_t mask, std::optional<ScalarType> dtype) {
  const bool counts = self.dtype() == ScalarType::Bool;  // entries of one place count once
  const SparseParts parts = sparse_parts("sum", counts ? coalesce_cpu(self) : self);
  sparse_positions("sum", parts.indices, self.sizes());
  const Tensor values = without_dense(parts, mask, dtype);
  std::vector<int64_t> rows;
  DimVector sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (has(mask, d)) continue;
    if (d < parts.sparse_dim()) rows.push_back(d);
    sizes.push_back(self.size(d));
  }
  if (rows.empty()) return sum_dim_IntList::call(values, IntArrayRef{0}, false, dtype);
  const auto count = static_cast<int64_t>(rows.size());
  const Tensor indices = index_select::call(parts.indices, 0, sparse::int64_tensor(rows, {count}));
  return coalesce_cpu(make_sparse("sum", sizes, {indices, values, false}));
}

}  // namespace

Tensor sum_sparse_cpu(const Tensor& self, std::optional<ScalarType> dtype) {
  const bool counts = self.dtype() == ScalarType::Bool;
  return sum::call(sparse_parts("sum", counts ? coalesce_cpu(self) : self).values, dtype);
}

Tensor sum_dim_sparse_cpu(const Tensor& self, const std::optional<IntArrayRef>& dim, bool keepdim,
                          std::optional<ScalarType> dtype) {
  const uint64_t mask = reduced_mask(self, dim);
  Tensor total = sum_without(self, mask, dtype);
  for (int64_t d = 0; keepdim && d < self.dim(); ++d) {
    if (has(mask, d)) total = unsqueeze::call(total, d);
  }
  return total;
}

Tensor any_sparse_cpu(const Tensor& self) {
  return any::call(sparse_parts("any", coalesce_cpu(self)).values);
}

Scalar local_scalar_dense_sparse_cpu(const Tensor& self) {
  check(self.numel() == 1, NotOneElement{self.numel()});
  return item_of(to_dense_cpu(self, true));
}

}  // namespace flambeau::ops
