// take and put on CPU: positions of the flattened tensor, negative ones from the end.
// Formula: take: out[p] = flat(self)[index[p]]; put: flat(self)[index[p]] = source[p], or += where
// it accumulates.
// Accumulates in: take: none, values are moved; put's sums as in index_cpu.cpp.
// NaN, infinity: both are moved; sums follow IEEE arithmetic.
// Error: exact except sums: n eps of the sum of magnitudes of n additions.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/view.h"
#include "aten/ops/index/movement.h"
#include "torchgen_out/aten/index_kernels.h"

namespace flambeau::ops {
namespace {

// Row-major elements in one dimension; `self` must be row-major.
Tensor flat(const Tensor& self) {
  return plain_view(self, {{self.numel()}, {1}, self.storage_offset()});
}

indexing::Places flat_places(const Tensor& self, const Tensor& index) {
  return indexing::slices_of(
      self, 0, index, indexing::Negative::FromEnd, [](int64_t i, int64_t size) {
        check_index(i >= -size && i < size, "out of range: expected an index into ", size,
                    " elements, got ", i);
      });
}

template <typename T, typename Write>
void put_all(const indexing::Places& places, const Tensor& target, const Tensor& source,
             const Write& write) {
  indexing::write_places(places, target.data_as<T>(), source.data_as<T>(), 1, write);
}

}  // namespace

void take_cpu(const Tensor& self, const Tensor& index, Tensor& result) {
  if (result.numel() == 0) return;
  const Tensor from = flat(contiguous_tensor(self));
  const indexing::Places places = flat_places(from, index);
  dispatch_by_size(element_size(self.dtype()), "take", [&]<typename T>() {
    indexing::read_places(places, from.data_as<T>(), result.data_as<T>());
  });
}

void put_cpu(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  check(index.dtype() == ScalarType::Int64, WrongIndexDtype{"put_()", "int64", index.dtype()});
  check(self.dtype() == source.dtype(), "put_(): expected a source of dtype ",
        pytorch_name_of(self.dtype()), ", got ", pytorch_name_of(source.dtype()));
  check_index(source.numel() == index.numel(),
              "put_(): expected one element of source per index, got ", source.numel(), " and ",
              index.numel());
  check_index(self.numel() > 0 || index.numel() == 0,
              "put_(): expected no indices for an empty tensor, got ", index.numel());
  indexing::check_writable(self);
  indexing::apart_from(self, index);
  const Tensor values = contiguous_tensor(indexing::apart_from(self, source));
  if (index.numel() == 0) return;
  const Tensor whole = contiguous_tensor(self);
  const Tensor target = flat(whole);
  const indexing::Places places = flat_places(target, index);
  if (accumulate) {
    dispatch_all(self.dtype(), "put_", [&]<typename T>() {
      put_all<T>(places, target, values,
                 [](T& place, const T& v) { place = indexing::sum_of(place, v); });
    });
  } else {
    dispatch_by_size(element_size(self.dtype()), "put_", [&]<typename T>() {
      put_all<T>(places, target, values, [](T& place, const T& v) { place = v; });
    });
  }
  if (!whole.is_same(self)) copy_into(self, whole);
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void take(const Tensor& self, const Tensor& index, OutSpec* out) {
  check(index.dtype() == ScalarType::Int64, WrongIndexDtype{"take()", "int64", index.dtype()});
  check_index(self.numel() > 0 || index.numel() == 0,
              "take(): expected no indices for an empty tensor, got ", index.numel());
  sized(self, index.sizes(), out);
}

}  // namespace flambeau::shape
