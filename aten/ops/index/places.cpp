#include "aten/ops/index/places.h"

#include "aten/core/broadcast.h"
#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"

namespace flambeau::indexing {

void Block::push(int64_t size, int64_t stride) {
  if (size == 1) return;
  count_ *= size;
  if (!sizes_.empty() && strides_.back() == size * stride) {
    sizes_.back() *= size;
    strides_.back() = stride;
    return;
  }
  sizes_.push_back(size);
  strides_.push_back(stride);
}

int64_t Block::offset(int64_t index) const {
  int64_t sum = 0;
  for (size_t d = sizes_.size(); d-- > 1;) {
    sum += index % sizes_[d] * strides_[d];
    index /= sizes_[d];
  }
  return sizes_.empty() ? 0 : sum + index * strides_[0];
}

std::vector<int64_t> Block::starts() const {
  const int64_t length = run();
  std::vector<int64_t> offsets(static_cast<size_t>(length ? count_ / length : 0));
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = offset(static_cast<int64_t>(i) * length);
  return offsets;
}

namespace {

DimVector broadcast_indices(TensorList indices) {
  DimVector sizes;
  for (const Tensor& index : indices) {
    const bool fits = !index.defined() || broadcast_into(sizes, index.sizes());
    check_index(fits, "index: shape mismatch: expected indices that broadcast together, got ",
                indices);
  }
  return sizes;
}

bool is_indexed(TensorList indices, size_t d) { return d < indices.size() && indices[d].defined(); }

// Whether the indexed dimensions follow one another; `first` becomes the first of them.
bool are_adjacent(TensorList indices, size_t* first) {
  size_t at = 0;
  while (at < indices.size() && !indices[at].defined()) ++at;
  *first = at;
  while (is_indexed(indices, at)) ++at;
  while (at < indices.size() && !indices[at].defined()) ++at;
  return at == indices.size();
}

// offsets[i] += stride * index[i], checked; the first index to come sets them.
void add_positions(const Tensor& index, const Plan& plan, int64_t dim, int64_t size, int64_t stride,
                   Tensor* offsets) {
  check_index(index.dtype() == ScalarType::Int64, "index: expected int64 positions, got ", index);
  Tensor wide = index;
  if (!(index.sizes() == plan.index_sizes.ref()) || !index.is_contiguous()) {
    wide = empty_tensor(plan.index_sizes, ScalarType::Int64);
    copy_into(wide, index);
  }
  const int64_t* const positions = wide.data_as<int64_t>();
  const bool is_first = !offsets->defined();
  if (is_first) *offsets = empty_tensor({wide.numel()}, ScalarType::Int64);
  int64_t* const sums = offsets->data_as<int64_t>();
  parallel_for(0, wide.numel(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = positions[i];
      check_index(at >= -size && at < size, OutOfBounds{at, dim, size});
      sums[i] = (is_first ? 0 : sums[i]) + (at < 0 ? at + size : at) * stride;
    }
  });
}

}  // namespace

Plan plan_of(const Tensor& self, TensorList indices) {
  check_index(static_cast<int64_t>(indices.size()) <= self.dim(),
              TooManyIndices{indices.size(), self.dim()});
  Plan plan;
  plan.index_sizes = broadcast_indices(indices);
  size_t first = 0;
  const bool adjacent = are_adjacent(indices, &first);
  plan.dims_before = adjacent ? first : 0;
  bool nothing_to_index = false;
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    if (is_indexed(indices, d)) {
      nothing_to_index |= self.sizes()[d] == 0;
    } else {
      plan.result_sizes.push_back(self.sizes()[d]);
    }
  }
  check_index(!nothing_to_index || numel_of(plan.index_sizes) == 0,
              "expected no indices for a dimension of size 0, got some (index is out of bounds)");
  for (size_t i = 0; i < plan.index_sizes.size(); ++i) {
    plan.result_sizes.insert(plan.dims_before + i, plan.index_sizes[i]);
  }
  return plan;
}

namespace {

// For each dimension of the result: self's, or -1 where the indices' are.
DimVector sources_of(const Tensor& self, TensorList indices, const Plan& plan) {
  DimVector sources;
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    if (!is_indexed(indices, d)) sources.push_back(static_cast<int64_t>(d));
  }
  for (size_t i = 0; i < plan.index_sizes.size(); ++i) sources.insert(plan.dims_before, -1);
  return sources;
}

// The dimensions of a dense tensor, outermost first.
DimVector memory_order(const Tensor& t) {
  DimVector order;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    size_t at = order.size();
    while (at > 0 && t.strides()[static_cast<size_t>(order[at - 1])] < t.strides()[d]) --at;
    order.insert(at, static_cast<int64_t>(d));
  }
  return order;
}

}  // namespace

Places places_of(const Tensor& self, TensorList indices, const Plan& plan) {
  Places places;
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    const int64_t size = self.sizes()[d], stride = self.strides()[d];
    if (is_indexed(indices, d)) {
      add_positions(indices[d], plan, static_cast<int64_t>(d), size, stride, &places.offsets);
    } else {
      (d < plan.dims_before ? places.before : places.after).push(size, stride);
    }
  }
  if (!places.offsets.defined()) places.offsets = zeros_tensor({1}, ScalarType::Int64);
  return places;
}

std::optional<Places> places_in_order_of(const Tensor& result, const Tensor& self,
                                         TensorList indices, const Plan& plan) {
  Places places = places_of(self, indices, plan);
  if (result.is_contiguous()) return places;
  places.before = places.after = Block();
  const DimVector sources = sources_of(self, indices, plan);
  size_t positions = 0;  // dimensions of the indices met
  for (const int64_t d : memory_order(result)) {
    const auto at = static_cast<size_t>(d);
    if (result.sizes()[at] == 1 && sources[at] >= 0) continue;
    const bool inside = positions > 0 && positions < plan.index_sizes.size();
    if (sources[at] < 0) {
      if (at != plan.dims_before + positions) return std::nullopt;
      ++positions;
    } else {
      if (inside) return std::nullopt;
      (positions == 0 ? places.before : places.after)
          .push(result.sizes()[at], self.strides()[static_cast<size_t>(sources[at])]);
    }
  }
  return places;
}

DimVector result_strides(const Tensor& self, TensorList indices, const Plan& plan) {
  if (self.is_contiguous()) return {};
  const size_t ndim = plan.result_sizes.size();
  ViewGeometry kept{plan.result_sizes, DimVector(ndim), self.storage_offset()};
  const DimVector sources = sources_of(self, indices, plan);
  for (size_t d = 0; d < ndim; ++d) {
    if (sources[d] >= 0) kept.strides[d] = self.strides()[static_cast<size_t>(sources[d])];
  }
  std::vector<Tensor> operands{plain_view(self, kept)};
  for (const Tensor& index : indices) {
    if (!index.defined()) continue;
    ViewGeometry spread{plan.result_sizes, DimVector(ndim), index.storage_offset()};
    const size_t skip = plan.dims_before + plan.index_sizes.size() - index.sizes().size();
    for (size_t i = 0; i < index.sizes().size(); ++i) {
      if (index.sizes()[i] != 1) spread.strides[skip + i] = index.strides()[i];
    }
    operands.push_back(plain_view(index, spread));
  }
  return strides_in_order_of(operands, plan.result_sizes);
}

Places around(const Tensor& self, int64_t dim) {
  Places places;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim) (d < dim ? places.before : places.after).push(self.size(d), self.stride(d));
  }
  return places;
}

Tensor as_positions(const Tensor& index) {
  return contiguous_tensor(cast_tensor(index, ScalarType::Int64));
}

Tensor apart_from(const Tensor& self, const Tensor& source) {
  const Overlap overlap = overlap_of(self, source);
  if (overlap == Overlap::No) return source;
  check(overlap == Overlap::TooHard, kReadAndWritten);
  const Tensor copy = empty_tensor(source.sizes(), source.dtype());
  copy_into(copy, source);
  return copy;
}

void check_writable(const Tensor& self) { check(!has_internal_overlap(self), kWrittenTwice); }

}  // namespace flambeau::indexing
