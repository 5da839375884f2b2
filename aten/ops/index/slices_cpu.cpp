// Slices of one dimension on CPU, named by a vector of indices. Only index_fill counts negative
// indices from the end.
// Formula: select: out[p] = self[index[p]]; copy: self[index[p]] = source[p]; add: self[index[p]]
// += alpha * source[p]; fill: self[index[p]] = value.
// Accumulates in: sums as in index_cpu.cpp; alpha is a number of the tensor's dtype, and alpha *
// source + self rounds once for the half types. The others: none, values are moved.
// NaN, infinity: both are moved; sums follow IEEE arithmetic.
// Error: exact except add: n additions at one place, n eps of the sum of magnitudes.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
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
  check_index(index.dim() <= 1, "index_add_(): expected a vector of indices, got ", index);
  check(is_index_type(index.dtype()),
        WrongIndexDtype{"index_add_()", "int64 or int32", index.dtype()});
  check(self.dtype() == source.dtype(), "index_add_(): expected a source of dtype ",
        pytorch_name_of(self.dtype()), ", got ", pytorch_name_of(source.dtype()));
  check(dim == 0 || dim < source.dim(), "index_add_(): expected a source with dim ", dim,
        ", got one of ", source.dim(), " dimensions");
  check_index(source.dim() > 0 || index.numel() == 1, MissingDimension{dim});
  const int64_t slices = source.dim() ? source.size(dim) : 1;
  check(index.numel() == slices, "index_add_(): expected one index for each of the ", slices,
        " slices of source along dim ", dim, ", got ", index.numel());
  check(self.dim() == source.dim() && without(self.sizes(), dim) == without(source.sizes(), dim),
        "index_add_(): expected equal sizes in all dimensions except dim, got ", self,
        " and source ", source);
}

void check_index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t n = index.numel();
  check_index(index.dim() <= 1, "index_copy_(): expected an index of 0 or 1 dimensions, got ",
              index.dim());
  check_index(source.dim() > 0 || n == 1,
              "index_copy_(): expected one index for a scalar source, got ", n);
  check_index(source.dim() == 0 || self.dim() == 0 || source.dim() == self.dim(),
              "index_copy_(): expected a source of ", self.dim(), " dimensions, got ",
              source.dim());
  check(index.dtype() == ScalarType::Int64,
        WrongIndexDtype{"index_copy_()", "int64", index.dtype()});
  check(self.dtype() == source.dtype(), "index_copy_(): expected a source of dtype ",
        pytorch_name_of(self.dtype()), ", got ", pytorch_name_of(source.dtype()));
  const DimVector ours = without(self.sizes(), dim), theirs = without(source.sizes(), dim);
  check(ours == theirs, "index_copy_(): expected slices of one shape, got ", spaced(ours),
        " along dimension ", dim, " of self and ", spaced(theirs), " in source");
  check_index(source.dim() == 0 || n == source.size(dim),
              "index_copy_(): expected one index per slice of source, got ", n, " for ",
              source.dim() ? source.size(dim) : 1);
}

void fill_slices(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  dim = wrap_dim(dim, self.dim());
  check_index(index.dtype() == ScalarType::Int64,
              WrongIndexDtype{"index_fill_()", "int64", index.dtype()});
  check(self.is_complex() || !value.is_complex(),
        "index_fill_(): expected a real value for a real tensor, got ", value);
  check(index.dim() <= 1, "index_fill_(): expected indices of 0 or 1 dimensions, got ",
        index.dim());
  indexing::apart_from(self, index);
  if (self.numel() == 0) return;
  const auto places =
      indexing::slices_of(self, dim, index, Negative::FromEnd, [&](int64_t i, int64_t size) {
        check_index(i >= -size && i < size, OutOfBounds{i, dim, size});
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
      check_index(picked == end - begin, "index_select(): expected indices from 0 to ",
                  self.size(0) - 1, ", got index out of range");
    });
  });
}

}  // namespace

void index_select_cpu(const Tensor& self, int64_t dim, const Tensor& index, Tensor& result) {
  if (self.dim() == 1) return select_elements(self, index, result);
  dim = wrap_dim(dim, self.dim());
  // As in PyTorch, the type of the error depends on the dimension.
  const bool by_range = self.dim() > 1 && (dim == 1 || self.numel() == 0);
  const auto places =
      indexing::slices_of(self, dim, index, Negative::Invalid, [by_range](int64_t i, int64_t size) {
        const bool inside = i >= 0 && i < size;
        check(inside || !by_range, "index_select(): expected indices from 0 to ", size - 1,
              ", got ", i);
        check_index(inside, "index_select(): expected indices from 0 to ", size - 1,
                    ", got index out of range: ", i);
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
  // PyTorch adds in two ways, which raise different errors.
  const bool scatters = self.dim() > 1 && (dim == 0 || dim == self.dim() - 1) && alpha.equals(1) &&
                        index.dtype() == ScalarType::Int64;
  const auto places =
      indexing::slices_of(self, dim, index, Negative::Invalid, [&](int64_t i, int64_t size) {
        const bool inside = i >= 0 && i < size;
        check_index(inside || scatters, "index_add_(): expected indices from 0 to ", size - 1,
                    ", got index out of range: ", i);
        check(inside, OutOfBounds{i, dim, size});
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
        check_index(i >= 0 && i < size, "index_copy_(): ", OutOfBounds{i, dim, size});
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
  check(value.dim() == 0, "index_fill_(): expected a value of 0 dimensions, got ", value.dim());
  fill_slices(self, dim, index, item_of(value));
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void index_select(const Tensor& self, int64_t dim, const Tensor& index, OutSpec* out) {
  const int64_t along = wrap_dim(dim, self.dim());
  check_index(index.dim() <= 1, "index_select(): expected indices of 0 or 1 dimensions, got ",
              index.dim());
  check(self.dim() > 0 || index.numel() == 1,
        "index_select(): expected one index into a scalar, got ", index.numel());
  check(index.dtype() == ScalarType::Int32 || index.dtype() == ScalarType::Int64,
        WrongIndexDtype{"index_select()", "int64 or int32", index.dtype()});
  DimVector sizes(self.sizes());
  if (!sizes.empty()) {
    const bool nowhere = self.dim() > 1 && self.size(along) == 0 && index.numel() > 0;
    check(!nowhere, "index_select(): expected no indices for a dimension of size 0, got ",
          index.numel());
    sizes[static_cast<size_t>(along)] = index.numel();
  }
  sized(self, sizes, out);
}

}  // namespace flambeau::shape
