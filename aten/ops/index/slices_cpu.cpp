// Slices of one dimension on CPU, named by a vector of indices: picked, added to, written, filled.
// Only index_fill counts negative indices from the end. Sums as in index_cpu.cpp; alpha is a number
// of the tensor's dtype, and alpha * source + self rounds once for the half types.
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/ops/index/movement.h"
#include "aten/ops/index/pick.h"
#include "torchgen_out/aten/index_kernels.h"

namespace flambeau::ops {
namespace {

using indexing::Negative;

bool is_index_type(ScalarType t) { return t == ScalarType::Int32 || t == ScalarType::Int64; }

DimVector without(IntArrayRef sizes, int64_t dim) {
  DimVector rest(sizes);
  if (!rest.empty()) rest.erase(static_cast<size_t>(dim));
  return rest;
}

// As in "4 5": the form of index_copy's message.
std::string spaced(IntArrayRef sizes) {
  std::string text;
  for (const int64_t s : sizes) text += text_of(text.empty() ? "" : " ", s);
  return text;
}

void check_index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_index(index.dim() <= 1,
              "index_add_(): Index is supposed to be a vector, but got dim: ", index.dim(),
              " with type: ", pytorch_name_of(index.dtype()), " and size: ", index.sizes());
  check(is_index_type(index.dtype()),
        "index_add_(): Expected dtype int32/int64 for index but got: ",
        pytorch_name_of(index.dtype()));
  check(self.dtype() == source.dtype(), "index_add_(): self (", pytorch_name_of(self.dtype()),
        ") and source (", pytorch_name_of(source.dtype()), ") must have the same scalar type");
  check(dim == 0 || dim < source.dim(), "index_add_(): Indexing dim ", dim,
        " is out of bounds of the source tensor with dim ", source.dim());
  check_index(source.dim() > 0 || index.numel() == 1, "Dimension specified as ", dim,
              " but tensor has no dimensions");
  const int64_t slices = source.dim() ? source.size(dim) : 1;
  check(index.numel() == slices, "index_add_(): Number of indices (", index.numel(),
        ") should be equal to source.size(dim): (", slices, "), for dim: ", dim);
  check(self.dim() == source.dim() && without(self.sizes(), dim) == without(source.sizes(), dim),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
        "self.shape = ",
        self.sizes(), " source.shape = ", source.sizes());
}

void check_index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t n = index.numel();
  check_index(index.dim() <= 1, "index_copy_(): Index should have dimension 1 or 0 (got ",
              index.dim(), ")");
  check_index(source.dim() > 0 || n == 1,
              "index_copy_(): When source is scalar, index should have one element (got ", n, ")");
  check_index(source.dim() == 0 || self.dim() == 0 || source.dim() == self.dim(),
              "index_copy_(): When source and destination are not scalars, their dimensionality "
              "must match. "
              "Source dimensionality (",
              source.dim(), "), destination dimensionality (", self.dim(), ")");
  check(index.dtype() == ScalarType::Int64,
        "index_copy_(): Expected a long tensor for index, but got ",
        pytorch_name_of(index.dtype()));
  check(self.dtype() == source.dtype(),
        "index_copy_(): self and source expected to have the same dtype, but "
        "got (self) ",
        pytorch_name_of(self.dtype()), " and (source) ", pytorch_name_of(source.dtype()));
  const DimVector ours = without(self.sizes(), dim), theirs = without(source.sizes(), dim);
  check(ours == theirs,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
        "slice shape: ",
        spaced(ours), " at dimension ", dim, " and source slice shape: ", spaced(theirs),
        " at dimension 0.");
  check_index(source.dim() == 0 || n == source.size(dim), "index_copy_(): Number of indices (", n,
              ") should be equal to source.size(dim) (", source.dim() ? source.size(dim) : 1, ")");
}

void fill_slices(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  dim = wrap_dim(dim, self.dim());
  check_index(index.dtype() == ScalarType::Int64, "index_fill_(): Expected dtype int64 for index.");
  check(self.is_complex() || !value.is_complex(),
        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check(index.dim() <= 1, "Index has to be a vector/scalar");
  indexing::apart_from(self, index);
  if (self.numel() == 0) return;
  const auto places =
      indexing::slices_of(self, dim, index, Negative::FromEnd, [&](int64_t i, int64_t size) {
        check_index(i >= -size && i < size, "index ", i, " is out of bounds for dimension ", dim,
                    " with size ", size);
      });
  dispatch_all(self.dtype(), "index_fill_", [&]<typename T>() {
    const T element = value.to<T>();
    indexing::write_places(places, self.data_as<T>(), &element, 0,
                           [](T& place, T v) { place = v; });
  });
}

void select_elements(const Tensor& self, const Tensor& index, Tensor& result) {
  const Tensor positions = indexing::as_positions(index);
  const int64_t* const at = positions.data_as<int64_t>();
  dispatch_by_size(element_size(self.dtype()), "index_select", [&]<typename T>() {
    const T* const from = self.data_as<T>();
    T* const to = result.data_as<T>();
    parallel_for(0, positions.numel(), 4, [&](int64_t begin, int64_t end) {
      const int64_t picked =
          indexing::pick(from, self.stride(0), self.size(0), at + begin, end - begin, to + begin);
      check_index(picked == end - begin, "index out of range in self");
    });
  });
}

}  // namespace

void index_select_cpu(const Tensor& self, int64_t dim, const Tensor& index, Tensor& result) {
  if (self.dim() == 1) return select_elements(self, index, result);
  dim = wrap_dim(dim, self.dim());
  // Which of PyTorch's two errors depends on the dimension.
  const bool by_range = self.dim() > 1 && (dim == 1 || self.numel() == 0);
  const auto places =
      indexing::slices_of(self, dim, index, Negative::Invalid, [by_range](int64_t i, int64_t size) {
        const bool inside = i >= 0 && i < size;
        check(inside || !by_range, "INDICES element is out of DATA bounds, id=", i,
              " axis_dim=", size);
        check_index(inside, "index out of range in self");
      });
  if (result.numel() == 0) return;
  dispatch_by_size(element_size(self.dtype()), "index_select", [&]<typename T>() {
    indexing::read_places(places, self.data_as<T>(), result.data_as<T>());
  });
}

void index_add_cpu(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                   const Scalar& alpha) {
  dim = wrap_dim(dim, self.dim());
  check_index_add(self, dim, index, source);
  indexing::check_writable(self);
  indexing::apart_from(self, index);
  const Tensor values = contiguous_tensor(indexing::apart_from(self, source));
  if (values.numel() == 0 || (self.dim() > 1 && self.numel() == 0)) return;
  // PyTorch adds in two ways, with an error each.
  const bool scatters = self.dim() > 1 && (dim == 0 || dim == self.dim() - 1) && alpha.equals(1) &&
                        index.dtype() == ScalarType::Int64;
  const auto places =
      indexing::slices_of(self, dim, index, Negative::Invalid, [&](int64_t i, int64_t size) {
        const bool inside = i >= 0 && i < size;
        check_index(inside || scatters, "index out of range in self");
        check(inside, "index ", i, " is out of bounds for dimension ", dim, " with size ", size);
      });
  dispatch_all(self.dtype(), "index_add_", [&]<typename T>() {
    using Compute =
        std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
    const auto scale = static_cast<Compute>(alpha.to<T>());
    T* const base = self.data_as<T>();
    if (scale == Compute(1)) {
      indexing::write_places(places, base, values.data_as<T>(), 1,
                             [](T& place, T v) { place = indexing::sum_of(place, v); });
      return;
    }
    indexing::write_places(places, base, values.data_as<T>(), 1, [scale](T& place, T v) {
      place = T(indexing::sum_of(Compute(place), indexing::product_of(scale, Compute(v))));
    });
  });
}

void index_copy_cpu(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  dim = wrap_dim(dim, self.dim());
  check_index_copy(self, dim, index, source);
  indexing::check_writable(self);
  indexing::apart_from(self, index);
  const Tensor values = contiguous_tensor(indexing::apart_from(self, source));
  if (self.numel() == 0 || values.numel() == 0) return;
  const auto places =
      indexing::slices_of(self, dim, index, Negative::Invalid, [dim](int64_t i, int64_t size) {
        check_index(i >= 0 && i < size, "index_copy_(): index ", i,
                    " is out of bounds for dimension ", dim, " with size ", size);
      });
  dispatch_by_size(element_size(self.dtype()), "index_copy_", [&]<typename T>() {
    indexing::write_places(places, self.data_as<T>(), values.data_as<T>(), 1,
                           [](T& place, const T& v) { place = v; });
  });
}

void index_fill_cpu(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  fill_slices(self, dim, index, value);
}

void index_fill_tensor_cpu(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  check(value.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
        " dimension(s).");
  fill_slices(self, dim, index, item_of(value));
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void index_select(const Tensor& self, int64_t dim, const Tensor& index, OutSpec* out) {
  const int64_t along = wrap_dim(dim, self.dim());
  check_index(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  check(self.dim() > 0 || index.numel() == 1,
        "index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
  check(index.dtype() == ScalarType::Int32 || index.dtype() == ScalarType::Int64,
        "index_select(): Expected dtype int32 or int64 for index");
  DimVector sizes(self.sizes());
  if (!sizes.empty()) {
    const bool nowhere = self.dim() > 1 && self.size(along) == 0 && index.numel() > 0;
    check(!nowhere, "index_select(): self indexing axis dim should be positive");
    sizes[static_cast<size_t>(along)] = index.numel();
  }
  sized(self, sizes, out);
}

}  // namespace flambeau::shape
