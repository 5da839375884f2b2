// Indexing by tensors on CPU: reading, writing and adding at positions. Negative indices count from
// the end.
// Formula: index: out[p] = self[positions[p]]; index_put: self[positions[p]] = values[p], or +=
// where it accumulates.
// Accumulates in: reads and writes: none, values are moved. Sums: the element type, each rounded
// (half and bfloat16 add in float32), in row-major order of the positions.
// NaN, infinity: both are moved; sums follow IEEE arithmetic.
// Error: reads and writes are exact; n additions at one place: n eps of the sum of magnitudes.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/ops/index/movement.h"
#include "torchgen_out/aten/index_kernels.h"
#include "torchgen_out/aten/masked_kernels.h"

namespace flambeau::ops {
namespace {

// The columns of nonzero(mask), which stands for the next dimensions of `self`.
void append_mask(const Tensor& self, const Tensor& mask, std::vector<Tensor>* positions) {
  const size_t dim = positions->size();
  check_index(dim + mask.sizes().size() <= self.sizes().size(),
              TooManyIndices{static_cast<size_t>(dim) + mask.sizes().size(), self.dim()});
  for (size_t d = 0; d < mask.sizes().size(); ++d) {
    check_index(mask.sizes()[d] == self.sizes()[dim + d], "index: The shape of the mask ",
                mask.sizes(), " differs from that of the tensor, ", self.sizes(), ", at dimension ",
                dim + d);
  }
  const Tensor rows = nonzero_cpu(mask);
  for (int64_t d = 0; d < mask.dim(); ++d) {
    positions->push_back(plain_view(rows, {{rows.size(0)}, {rows.stride(0)}, d * rows.stride(1)}));
  }
}

}  // namespace

namespace {

// How many positions a mask selects is data.
void refuse_mask(const Tensor&, const Tensor&, std::vector<Tensor>*) {
  fail(ErrorKind::NotImplemented,
       "index: expected indices of an integer dtype on meta, got a mask: ",
       "the shape of its nonzero() is data");
}
Tensor positions_cpu(const Tensor& index) { return cast_tensor(index, ScalarType::Int64); }
Tensor positions_meta(const Tensor& index) {
  return index.dtype() == ScalarType::Int64
             ? index
             : empty_tensor(index.sizes(), ScalarType::Int64, DeviceType::Meta);
}

template <auto append, auto positions_of>
std::vector<Tensor> index_positions(const Tensor& self, TensorList indices) {
  std::vector<Tensor> positions;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      positions.emplace_back();
      continue;
    }
    switch (index.dtype()) {
      case ScalarType::Bool:
      case ScalarType::UInt8:
        append(self, index, &positions);
        break;
      case ScalarType::Int32:
      case ScalarType::Int64:
        positions.push_back(positions_of(index));
        break;
      default:
        fail(ErrorKind::Index, "expected indices of dtype bool or an integer one, got ",
             pytorch_name_of(index.dtype()));
    }
  }
  check_index(positions.size() <= self.sizes().size(),
              TooManyIndices{positions.size(), self.dim()});
  return positions;
}

}  // namespace

std::vector<Tensor> index_positions_cpu(const Tensor& self, TensorList indices) {
  return index_positions<append_mask, positions_cpu>(self, indices);
}
std::vector<Tensor> index_positions_meta(const Tensor& self, TensorList indices) {
  return index_positions<refuse_mask, positions_meta>(self, indices);
}

void index_cpu(const Tensor& self, TensorList indices, Tensor& result) {
  if (result.numel() == 0) return;
  const indexing::Plan plan = indexing::plan_of(self, indices);
  const std::optional<indexing::Places> places =
      indexing::places_in_order_of(result, self, indices, plan);
  if (!places) {
    Tensor row_major = empty_tensor(result.sizes(), result.dtype());
    index_cpu(self, indices, row_major);
    return copy_into(result, row_major);
  }
  dispatch_by_size(element_size(self.dtype()), "index", [&]<typename T>() {
    indexing::read_places(*places, self.data_as<T>(), result.data_as<T>());
  });
}

void index_put_cpu(Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  const indexing::Plan plan = indexing::plan_of(self, indices);
  check(self.dtype() == values.dtype(), "index_put_: expected values of the destination's dtype ",
        pytorch_name_of(self.dtype()), ", got ", pytorch_name_of(values.dtype()));
  check(is_broadcastable_to(values.sizes(), plan.result_sizes),
        "index_put_: shape mismatch: expected values that broadcast to the indexed shape ",
        plan.result_sizes, ", got ", values);
  for (const Tensor& index : indices) {
    if (index.defined()) indexing::apart_from(self, index);
  }
  Tensor source = indexing::apart_from(self, values);
  if (numel_of(plan.result_sizes) == 0) return;
  const indexing::Places places = indexing::places_of(self, indices, plan);
  const int64_t step = source.numel() == 1 ? 0 : 1;
  if (step == 1 && !(source.sizes() == plan.result_sizes.ref() && source.is_contiguous())) {
    source = empty_tensor(plan.result_sizes, self.dtype());
    copy_into(source, values);
  }
  if (!accumulate) {
    dispatch_by_size(element_size(self.dtype()), "index_put", [&]<typename T>() {
      indexing::write_places(places, self.data_as<T>(), source.data_as<T>(), step,
                             [](T& place, const T& value) { place = value; });
    });
    return;
  }
  dispatch_all(self.dtype(), "index_put", [&]<typename T>() {
    indexing::write_places(
        places, self.data_as<T>(), source.data_as<T>(), step,
        [](T& place, const T& value) { place = indexing::sum_of(place, value); });
  });
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void index(const Tensor& self, TensorList indices, OutSpec* out) {
  const indexing::Plan plan = indexing::plan_of(self, indices);
  sized(self, plan.result_sizes, out);
  out->strides = indexing::result_strides(self, indices, plan);
}

}  // namespace flambeau::shape
