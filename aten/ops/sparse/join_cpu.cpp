// Sparse tensors joined and gathered along dimensions on CPU.
// Formula: the entries of all parts, their indices along `dim` shifted by the sizes of the parts
// before.
// Accumulates in: none: values are moved.
// NaN, infinity: both are moved as any value.
// Error: none: exact.
// Source: by definition.
#include <algorithm>
#include <numeric>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/arithmetic_ops.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/sparse_ops.h"
#include "torchgen_out/aten/sparse_rules.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

int64_t common_sparse_dim(const char* op, TensorList tensors) {
  for (const Tensor& t : tensors) {
    check(is_sparse(t), op, ": expected all tensors to be sparse, got ", t, " of layout strided");
    check(sparse_parts(op, t).sparse_dim() == sparse_parts(op, tensors[0]).sparse_dim(), op,
          ": expected equal numbers of sparse dimensions, got ", tensors[0], " and ", t);
  }
  return sparse_parts(op, tensors[0]).sparse_dim();
}

DimVector joined_sizes(TensorList tensors, int64_t dim) {
  DimVector sizes(tensors[0].sizes());
  for (const Tensor& t : tensors.slice(1, tensors.size() - 1)) {
    for (int64_t d = 0; d < t.dim(); ++d) {
      check(d == dim || t.size(d) == tensors[0].size(d), "cat: Sizes of tensors must match in all ",
            "dimensions except ", dim, ", got ", tensors[0], " and ", t);
    }
    sizes[static_cast<size_t>(dim)] = sum_of("cat", sizes[static_cast<size_t>(dim)], t.size(dim));
  }
  return sizes;
}

// Indices along `dim` moved by what stands before the tensor.
Tensor moved_by(const Tensor& indices, int64_t dim, int64_t offset) {
  const Tensor moved = clone::call(indices);
  const Tensor row = select_int::call(moved, 0, dim);
  copy_into(row, add_Scalar::call(row, Scalar(offset)));
  return moved;
}

// Values of one tensor among zeros in place of the others' elements of a dense dimension.
Tensor padded(const Tensor& values, int64_t dim, int64_t offset, int64_t size) {
  DimVector sizes(values.sizes());
  sizes[static_cast<size_t>(dim)] = size;
  const Tensor all = zeros_tensor(sizes, values.dtype());
  copy_into(narrow::call(all, dim, offset, values.size(dim)), values);
  return all;
}

// Entries whose position an index names, each with the place of the index. Negative indices count
// from the end, as PyTorch's do for sparse tensors alone.
struct Chosen {
  std::vector<int64_t> entries, positions;
};

Chosen chosen_by(const Tensor& self, const SparseParts& parts, int64_t dim, const Tensor& index) {
  const Tensor places =
      clone::call(to_dtype::call(index, ScalarType::Int64), MemoryFormat::Contiguous);
  auto* const place = places.data_as<int64_t>();
  std::vector<int64_t> order(static_cast<size_t>(index.numel()));
  for (int64_t i = 0; i < index.numel(); ++i) {
    check_index(place[i] >= -self.size(dim) && place[i] < self.size(dim),
                "index_select: expected indices below ", self.size(dim), " for dimension ", dim,
                ", got ", place[i], ", which is out of range");
    place[i] += place[i] < 0 ? self.size(dim) : 0;
  }
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return place[a] < place[b]; });
  const Tensor row = contiguous_tensor(select_int::call(parts.indices, 0, dim));
  Chosen chosen;
  for (int64_t entry = 0; entry < parts.count(); ++entry) {
    const int64_t position = row.data_as<int64_t>()[entry];
    auto at = std::lower_bound(order.begin(), order.end(), position,
                               [&](int64_t i, int64_t p) { return place[i] < p; });
    for (; at != order.end() && place[*at] == position; ++at) {
      chosen.entries.push_back(entry);
      chosen.positions.push_back(*at);
    }
  }
  return chosen;
}

}  // namespace

Tensor cat_sparse_cpu(TensorList tensors, IntArrayRef, int64_t dim) {
  const int64_t lead = common_sparse_dim("cat", tensors);
  dim = wrap_dim(dim, tensors[0].dim());
  const DimVector sizes = joined_sizes(tensors, dim);
  std::vector<Tensor> indices, values;
  int64_t offset = 0;
  for (const Tensor& t : tensors) {
    const SparseParts parts = sparse_parts("cat", t);
    sparse_positions("cat", parts.indices, t.sizes());
    const bool leads = dim < lead;
    indices.push_back(leads ? moved_by(parts.indices, dim, offset) : parts.indices);
    values.push_back(
        leads ? parts.values
              : padded(parts.values, dim - lead + 1, offset, sizes[static_cast<size_t>(dim)]));
    offset += t.size(dim);
  }
  return make_sparse("cat", sizes, {cat::call(indices, 1), cat::call(values, 0), false});
}

Tensor stack_sparse_cpu(TensorList tensors, int64_t dim) {
  const int64_t lead = common_sparse_dim("stack", tensors);
  for (const Tensor& t : tensors) {
    check(t.sizes() == tensors[0].sizes(), "stack: expects each tensor to be of equal size, got ",
          tensors[0], " and ", t);
  }
  dim = wrap_dim(dim, tensors[0].dim() + 1);
  check(dim <= lead || tensors[0].dim() > lead, "stack: expected dim of at most ", lead,
        " for tensors without dense dimensions, got ", dim);
  std::vector<Tensor> wider;
  for (const Tensor& t : tensors) wider.push_back(unsqueeze_sparse_cpu(t, dim));
  return cat_sparse_cpu(wider, {}, dim);
}

// Entry i is repeated for each place of `index` that names its position.
Tensor index_select_sparse_cpu(const Tensor& self, int64_t dim, const Tensor& index) {
  constexpr const char* kName = "index_select";
  const SparseParts parts = sparse_parts(kName, self);
  check_index(self.dim() > 0 && index.dim() <= 1, kName,
              ": expected a tensor with dimensions and an index of one, got ", self, " and ",
              index);
  check_index(!is_sparse(index) &&
                  (index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32),
              kName, ": expected a strided index of int32 or int64, got ", index);
  sparse_positions(kName, parts.indices, self.sizes());
  dim = wrap_dim(dim, self.dim());
  const int64_t lead = parts.sparse_dim(), wanted = index.numel();
  DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(dim)] = wanted;
  if (dim >= lead) {
    const Tensor values = index_select::call(parts.values, dim - lead + 1, index);
    return make_sparse(kName, sizes, {parts.indices, values, parts.is_coalesced});
  }
  const Chosen chosen = chosen_by(self, parts, dim, index);
  const auto count = static_cast<int64_t>(chosen.entries.size());
  const Tensor kept = sparse::int64_tensor(chosen.entries, {count});
  const Tensor indices = index_select::call(parts.indices, 1, kept);
  copy_into(select_int::call(indices, 0, dim), sparse::int64_tensor(chosen.positions, {count}));
  return make_sparse(kName, sizes, {indices, index_select::call(parts.values, 0, kept), false});
}

}  // namespace flambeau::ops
