// Dimensions of sparse tensors moved, selected, narrowed, dropped and added on CPU. The results are
// tensors of their own, since a sparse tensor cannot share a part of its entries.
// Formula: a view rule says what becomes of the dimensions: it is asked about a tensor without
// memory whose strides tell dimensions apart, and its answer is carried out on the indices and the
// values.
// Accumulates in: none: values are moved.
// NaN, infinity: both are moved as any value.
// Error: none: exact.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/sparse_kernels.h"
#include "torchgen_out/aten/sparse_rules.h"
#include "torchgen_out/aten/unary_ops.h"
#include "torchgen_out/aten/view_kernels.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Dimension d has twice the product of the sizes to its right (at least 1), each with 1 added:
// steps along it stay below the stride of the dimension to its left, and the last stride is not 1,
// which rules give to new dimensions.
DimVector markers(const char* op, IntArrayRef sizes) {
  DimVector strides(sizes.size(), 0);
  int64_t stride = 2;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride = product_of(op, stride, sum_of(op, std::max<int64_t>(sizes[d], 1), 1));
  }
  return strides;
}

Tensor marked(const char* op, const Tensor& self) {
  sparse_parts(op, self);
  Tensor t(make_intrusive<TensorImpl>(make_intrusive<StorageImpl>(0, DeviceType::Meta),
                                      self.dtype(), DeviceType::Meta));
  t.impl()->set_geometry(self.sizes(), markers(op, self.sizes()), 0);
  return t;
}

// A dimension of the result: elements begin, begin + step, ... of dimension `source`; of none (-1),
// it is new and of size 1.
struct Origin {
  int64_t source = -1, begin = 0, step = 1, size = 1;
};

struct Origins {
  std::vector<Origin> dims;     // of the result
  std::vector<Origin> dropped;  // of self: one element is selected
};

// The source is searched from the right, so that a new dimension, to which rules give the stride of
// what is to its right, does not pass for a dimension of size 1.
Origins origins_of(const char* op, const Tensor& self, const ViewGeometry& g) {
  const DimVector strides = markers(op, self.sizes());
  DimVector begin(strides.size(), 0);
  int64_t offset = g.storage_offset;
  for (size_t d = 0; d < strides.size(); ++d) {
    begin[d] = offset / strides[d];
    offset %= strides[d];
  }
  std::vector<bool> taken(strides.size(), false);
  Origins origins;
  origins.dims.resize(g.sizes.size());
  for (size_t i = g.sizes.size(); i-- > 0;) {
    const int64_t stride = g.strides[i];
    size_t d = 0;
    while (d < strides.size() && strides[d] > stride) ++d;
    if (d < strides.size() && stride % strides[d] == 0 && !taken[d]) {
      taken[d] = true;
      origins.dims[i] = {static_cast<int64_t>(d), begin[d], stride / strides[d], g.sizes[i]};
    } else {
      check(g.sizes[i] == 1, op, ": expected a view that does not merge dimensions, got one of ",
            self);
    }
  }
  for (size_t d = 0; d < strides.size(); ++d) {
    if (!taken[d]) origins.dropped.push_back({static_cast<int64_t>(d), begin[d], 1, 1});
  }
  return origins;
}

// How many leading dimensions of the result are sparse: new ones are where dense ones have not
// begun.
int64_t leading(const char* op, const Tensor& self, const std::vector<Origin>& dims, int64_t lead) {
  int64_t count = 0;
  bool is_dense = false;
  for (const Origin& o : dims) {
    is_dense |= o.source >= lead;
    check(!is_dense || o.source < 0 || o.source >= lead, op, ": expected the ", lead,
          " sparse dimensions to stay before the dense ones, got another order for ", self);
    count += !is_dense;
  }
  return count;
}

// Numbers of the entries that lie in the ranges.
std::vector<int64_t> entries_in(const Tensor& indices, const std::vector<Origin>& ranges) {
  const Tensor rows = contiguous_tensor(indices);
  const auto* const index = rows.data_as<int64_t>();
  const int64_t count = indices.size(1);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < count; ++i) {
    const bool inside = std::all_of(ranges.begin(), ranges.end(), [&](const Origin& o) {
      const int64_t position = index[o.source * count + i];
      return position >= o.begin && (position - o.begin) % o.step == 0 &&
             (position - o.begin) / o.step < o.size;
    });
    if (inside) kept.push_back(i);
  }
  return kept;
}

// [sparse dimensions of the result, kept entries]
Tensor moved_indices(const Tensor& indices, const std::vector<Origin>& dims, int64_t lead,
                     const std::vector<int64_t>& kept) {
  const Tensor rows = contiguous_tensor(indices);
  const auto* const index = rows.data_as<int64_t>();
  const int64_t count = indices.size(1);
  std::vector<int64_t> moved;
  for (int64_t d = 0; d < lead; ++d) {
    const Origin& o = dims[at(d)];
    for (const int64_t i : kept)
      moved.push_back(o.source < 0 ? 0 : (index[o.source * count + i] - o.begin) / o.step);
  }
  return sparse::int64_tensor(moved, {lead, static_cast<int64_t>(kept.size())});
}

// The dense dimensions are a view of the values.
Tensor moved_values(const Tensor& values, const Origins& origins, int64_t had, int64_t lead) {
  ViewGeometry g{{values.size(0)}, {values.stride(0)}, values.storage_offset()};
  for (size_t i = at(lead); i < origins.dims.size(); ++i) {
    const Origin& o = origins.dims[i];
    const int64_t stride = o.source < 0 ? 1 : values.stride(o.source - had + 1);
    g.sizes.push_back(o.size);
    g.strides.push_back(stride * o.step);
    g.storage_offset += stride * o.begin;
  }
  for (const Origin& o : origins.dropped) {
    if (o.source >= had) g.storage_offset += values.stride(o.source - had + 1) * o.begin;
  }
  return plain_view(values, g);
}

bool keeps_order(const std::vector<Origin>& dims, int64_t lead) {
  int64_t last = -1;
  for (int64_t d = 0; d < lead; ++d) {
    const int64_t source = dims[at(d)].source;
    if (source < 0) continue;
    if (source < last) return false;
    last = source;
  }
  return true;
}

Tensor viewed(const char* op, const Tensor& self, const ViewGeometry& g) {
  const SparseParts parts = sparse_parts(op, self);
  sparse_positions(op, parts.indices, self.sizes());
  const int64_t had = parts.sparse_dim();
  const Origins origins = origins_of(op, self, g);
  const int64_t lead = leading(op, self, origins.dims, had);
  std::vector<Origin> ranges;
  for (const std::vector<Origin>* found : {&origins.dims, &origins.dropped}) {
    for (const Origin& o : *found) {
      if (o.source >= 0 && o.source < had) ranges.push_back(o);
    }
  }
  const std::vector<int64_t> kept = entries_in(parts.indices, ranges);
  const auto count = static_cast<int64_t>(kept.size());
  const Tensor indices = moved_indices(parts.indices, origins.dims, lead, kept);
  const Tensor values = index_select::call(moved_values(parts.values, origins, had, lead), 0,
                                           sparse::int64_tensor(kept, {count}));
  const bool is_coalesced = parts.is_coalesced && keeps_order(origins.dims, lead);
  const Tensor result = make_sparse(op, g.sizes, {indices, values, is_coalesced, true});
  // Without a dimension that is sparse there is one place for all entries.
  return lead == 0 && had > 0 ? to_dense_cpu(result, true) : result;
}

}  // namespace

Tensor permute_sparse_cpu(const Tensor& self, IntArrayRef dims) {
  return viewed("permute", self, view::permute(marked("permute", self), dims));
}
Tensor permute_back_sparse_cpu(const Tensor& self, IntArrayRef dims) {
  return viewed("permute", self, view::permute_back(marked("permute", self), dims));
}
Tensor transpose_sparse_cpu(const Tensor& self, int64_t dim0, int64_t dim1) {
  return viewed("transpose", self, view::transpose(marked("transpose", self), dim0, dim1));
}
Tensor t_sparse_cpu(const Tensor& self) {
  return viewed("t", self, view::transpose_matrix(marked("t", self)));
}
Tensor squeeze_sparse_cpu(const Tensor& self) {
  return viewed("squeeze", self, view::squeeze(marked("squeeze", self)));
}
Tensor squeeze_dim_sparse_cpu(const Tensor& self, int64_t dim) {
  return viewed("squeeze", self, view::squeeze_dim(marked("squeeze", self), dim));
}
Tensor squeeze_dims_sparse_cpu(const Tensor& self, IntArrayRef dim) {
  return viewed("squeeze", self, view::squeeze_dims(marked("squeeze", self), dim));
}
Tensor unsqueeze_sparse_cpu(const Tensor& self, int64_t dim) {
  return viewed("unsqueeze", self, view::unsqueeze(marked("unsqueeze", self), dim));
}
Tensor select_sparse_cpu(const Tensor& self, int64_t dim, int64_t index) {
  return viewed("select", self, view::select(marked("select", self), dim, index));
}
Tensor slice_sparse_cpu(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                        std::optional<int64_t> end, int64_t step) {
  // A step beyond the size would have the stride of another dimension.
  const int64_t size = self.dim() > 0 ? self.size(wrap_dim(dim, self.dim())) : 0;
  const int64_t within = std::min(step, std::max<int64_t>(size, 1));
  return viewed("slice", self, view::slice(marked("slice", self), dim, start, end, within));
}
Tensor narrow_sparse_cpu(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return viewed("narrow", self, view::narrow(marked("narrow", self), dim, start, length));
}
std::vector<Tensor> split_with_sizes_sparse_cpu(const Tensor& self, IntArrayRef split_sizes,
                                                int64_t dim) {
  std::vector<Tensor> pieces;
  for (const ViewGeometry& g : view::split_with_sizes(marked("split", self), split_sizes, dim))
    pieces.push_back(viewed("split", self, g));
  return pieces;
}
std::vector<Tensor> unbind_sparse_cpu(const Tensor& self, int64_t dim) {
  std::vector<Tensor> slices;
  for (const ViewGeometry& g : view::unbind(marked("unbind", self), dim))
    slices.push_back(viewed("unbind", self, g));
  return slices;
}
// The two parts of a number are a dense dimension.
Tensor view_as_real_sparse_cpu(const Tensor& self) {
  const SparseParts parts = sparse_parts("view_as_real", self);
  check(self.is_complex(), "view_as_real: expected a complex tensor, got ", self);
  const Tensor values = view_as_real::call(resolve_conj::call(parts.values));
  DimVector sizes(self.sizes());
  sizes.push_back(2);
  return make_sparse("view_as_real", sizes, {parts.indices, values, parts.is_coalesced, true});
}

}  // namespace flambeau::ops
