// Sparse tensors made of their parts or of strided tensors, and taken apart again, on CPU. Every
// function that takes indices for addresses goes through sparse_positions, which checks their
// range.
// Formula: dense[indices[:, e]] += values[e]; to_sparse: the elements that are not 0.
// Accumulates in: the dtype; values of entries that occur several times add up, in the order of the
// entries.
// NaN, infinity: NaN is not 0, so it becomes an entry; sums follow IEEE arithmetic.
// Error: exact except where n entries share a place: n eps of the sum of magnitudes.
// Source: by definition.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "aten/core/factory.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/comparison_ops.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/masked_ops.h"
#include "torchgen_out/aten/reduction_ops.h"
#include "torchgen_out/aten/sparse_kernels.h"
#include "torchgen_out/aten/sparse_ops.h"
#include "torchgen_out/aten/sparse_rules.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::sparse {

Tensor int64_tensor(const std::vector<int64_t>& values, IntArrayRef sizes) {
  Tensor t = empty_tensor(sizes, ScalarType::Int64);
  if (!values.empty()) std::memcpy(t.data(), values.data(), values.size() * sizeof(int64_t));
  return t;
}

DimVector row_sizes(IntArrayRef sizes, int64_t sparse_dim) {
  const auto lead = static_cast<size_t>(sparse_dim);
  const IntArrayRef counted = sizes.slice(0, lead);
  int64_t rows = std::find(counted.begin(), counted.end(), 0) == counted.end() ? 1 : 0;
  for (const int64_t size : counted) rows *= rows ? size : 0;
  DimVector result{rows};
  for (const int64_t size : sizes.slice(lead, sizes.size() - lead)) result.push_back(size);
  return result;
}

Tensor add_rows(const Tensor& rows, const Tensor& at, const Tensor& values) {
  if (values.dtype() != ScalarType::Bool) {
    Tensor sums = rows;
    return ops::index_add_::call(sums, 0, at, values);
  }
  Tensor counts = ops::to_dtype::call(rows, ScalarType::Int64);
  ops::index_add_::call(counts, 0, at, ops::to_dtype::call(values, ScalarType::Int64));
  return ops::ne_Scalar::call(counts, Scalar(int64_t{0}));
}

SparseParts no_entries(const SparseParts& like, ScalarType dtype) {
  DimVector sizes(like.values.sizes());
  sizes[0] = 0;
  return {empty_tensor({like.sparse_dim(), 0}, ScalarType::Int64), empty_tensor(sizes, dtype),
          true};
}

Tensor alias_of(const Tensor& t) {
  return plain_view(t, {DimVector(t.sizes()), DimVector(t.strides()), t.storage_offset()});
}

}  // namespace flambeau::sparse

namespace flambeau::ops {
namespace {

using sparse::int64_tensor;

// Entries in ascending order of position; equal ones keep their order.
struct Order {
  std::vector<int64_t> entries;
  bool is_sorted = true;
  bool is_strict = true;
};

Order order_of(const std::vector<int64_t>& positions) {
  Order order;
  for (size_t i = 1; i < positions.size(); ++i) {
    order.is_sorted &= positions[i - 1] <= positions[i];
    order.is_strict &= positions[i - 1] < positions[i];
  }
  order.entries.resize(positions.size());
  std::iota(order.entries.begin(), order.entries.end(), int64_t{0});
  if (order.is_sorted) return order;
  std::stable_sort(order.entries.begin(), order.entries.end(), [&](int64_t a, int64_t b) {
    return positions[static_cast<size_t>(a)] < positions[static_cast<size_t>(b)];
  });
  return order;
}

Tensor gather_from_dense(const Tensor& self, const Tensor& indices) {
  const std::vector<int64_t> positions = sparse_positions("sparse_mask", indices, self.sizes());
  const Tensor rows = reshape::call(self, sparse::row_sizes(self.sizes(), indices.size(0)));
  return index_select::call(rows, 0, int64_tensor(positions, {indices.size(1)}));
}

void check_gather(const Tensor& self, const Tensor& indices) {
  check(indices.dim() == 2 && indices.dtype() == ScalarType::Int64, "sparse_mask: expected indices",
        " to be int64[sparse dimensions, entries], got ", indices);
  check(indices.size(0) <= self.dim(), "sparse_mask: expected at most ", self.dim(),
        " sparse dimensions, got ", indices.size(0));
}

// PyTorch's exception for indices that a tensor cannot be made of; others are IndexErrors.
void check_fits(const Tensor& indices, IntArrayRef size) {
  const Tensor rows = contiguous_tensor(indices);
  const auto* const index = rows.data_as<int64_t>();
  for (int64_t d = 0; d < indices.size(0); ++d) {
    for (int64_t i = 0; i < indices.size(1); ++i) {
      const int64_t at = index[d * indices.size(1) + i];
      check(at >= 0, "sparse_coo_tensor: expected indices of 0 or more, found negative index ", at,
            " for dim ", d, ", entry ", i);
      check(at < size[static_cast<size_t>(d)], "sparse_coo_tensor: expected indices below size ",
            size[static_cast<size_t>(d)], " for dim ", d,
            " (its size is inconsistent with indices), got ", at, ", out of range");
    }
  }
}

}  // namespace

Tensor sparse_coo_tensor_cpu(const Tensor& indices, const Tensor& values, IntArrayRef size,
                             bool is_coalesced) {
  constexpr const char* kName = "sparse_coo_tensor";
  Tensor t = make_sparse(kName, size, {indices, values, is_coalesced});
  check_fits(indices, size);
  return t;
}

Tensor sparse_indices_cpu(const Tensor& self) {
  return sparse::alias_of(sparse_parts("indices", self).indices);
}

Tensor sparse_values_cpu(const Tensor& self) {
  return sparse::alias_of(sparse_parts("values", self).values);
}

Tensor coalesce_cpu(const Tensor& self) {
  const SparseParts parts = sparse_parts("coalesce", self);
  const std::vector<int64_t> positions = sparse_positions("coalesce", parts.indices, self.sizes());
  const Order order = order_of(positions);
  if (order.is_sorted && order.is_strict)
    return make_sparse("coalesce", self.sizes(), {parts.indices, parts.values, true});
  std::vector<int64_t> first, group(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto entry = static_cast<size_t>(order.entries[i]);
    if (first.empty() || positions[entry] != positions[static_cast<size_t>(first.back())])
      first.push_back(order.entries[i]);
    group[entry] = static_cast<int64_t>(first.size()) - 1;
  }
  const auto groups = static_cast<int64_t>(first.size());
  const Tensor indices = index_select::call(parts.indices, 1, int64_tensor(first, {groups}));
  DimVector sizes(parts.values.sizes());
  sizes[0] = groups;
  const Tensor sums = sparse::add_rows(zeros_tensor(sizes, self.dtype()),
                                       int64_tensor(group, {parts.count()}), parts.values);
  return make_sparse("coalesce", self.sizes(), {indices, sums, true});
}

Tensor to_dense_cpu(const Tensor& self, bool) {
  if (!is_sparse(self)) return clone::call(self);
  const SparseParts parts = sparse_parts("to_dense", self);
  const std::vector<int64_t> positions = sparse_positions("to_dense", parts.indices, self.sizes());
  const Tensor zeros =
      zeros_tensor(sparse::row_sizes(self.sizes(), parts.sparse_dim()), self.dtype());
  const Tensor rows =
      sparse::add_rows(zeros, int64_tensor(positions, {parts.count()}), parts.values);
  return reshape::call(rows, self.sizes());
}

Tensor to_sparse_cpu(const Tensor& self, int64_t sparse_dim) {
  check(sparse_dim >= 0 && sparse_dim <= self.dim() && (sparse_dim > 0 || self.dim() == 0),
        "to_sparse: expected sparse_dim in [1, ", self.dim(), "], got ", sparse_dim);
  if (is_sparse(self)) {
    if (sparse_parts("to_sparse", self).sparse_dim() == sparse_dim)
      return clone_sparse_cpu(self, {});
    return to_sparse_cpu(to_dense_cpu(self, true), sparse_dim);
  }
  check(self.is_cpu(), "to_sparse: expected a tensor on the CPU, got ", self.device());
  Tensor present = ne_Scalar::call(self, Scalar(int64_t{0}));
  while (present.dim() > sparse_dim) present = any_dim::call(present, -1);
  const Tensor at = nonzero::call(present);
  const Tensor indices = contiguous_tensor(permute::call(at, {1, 0}));
  const Tensor values = gather_from_dense(self, indices);
  return make_sparse("to_sparse", self.sizes(), {indices, values, true});
}

Tensor sparse_gather_cpu(const Tensor& self, const Tensor& indices) {
  check_gather(self, indices);
  return gather_from_dense(self, indices);
}

Tensor sparse_gather_sparse_cpu(const Tensor& self, const Tensor& indices) {
  check_gather(self, indices);
  if (sparse_parts("sparse_mask", self).sparse_dim() != indices.size(0))
    return gather_from_dense(to_dense_cpu(self, true), indices);
  const Tensor sorted = coalesce_cpu(self);
  const SparseParts parts = sparse_parts("sparse_mask", sorted);
  const std::vector<int64_t> have = sparse_positions("sparse_mask", parts.indices, self.sizes());
  std::vector<int64_t> wanted = sparse_positions("sparse_mask", indices, self.sizes());
  for (int64_t& at : wanted) {
    const auto found = std::lower_bound(have.begin(), have.end(), at);
    const bool is_present = found != have.end() && *found == at;
    at = is_present ? found - have.begin() : static_cast<int64_t>(have.size());
  }
  DimVector one(parts.values.sizes());
  one[0] = 1;  // the value of absent entries
  const Tensor values[] = {parts.values, zeros_tensor(one, self.dtype())};
  return index_select::call(cat::call(values, 0), 0, int64_tensor(wanted, {indices.size(1)}));
}

}  // namespace flambeau::ops
