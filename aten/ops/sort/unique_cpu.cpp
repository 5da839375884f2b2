// unique and unique_consecutive on CPU.
// Formula: groups of equal elements, or of equal slices of one dimension. unique sorts the places
// first, stably, so that counts and inverse follow from one pass over neighbours. Slices are
// ordered element by element.
// Accumulates in: none: values are moved; counts are int64.
// NaN, infinity: NaN equals nothing, not even itself; infinities are equal to themselves.
// Error: none: exact.
// Source: by definition.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/order_key.h"
#include "aten/ops/sort/radix.h"
#include "torchgen_out/aten/sort_kernels.h"
#include "torchgen_out/aten/sort_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

using Found = std::tuple<Tensor, Tensor, Tensor>;

// `order[i]` is the place of the i-th slice; equal(a, b) compares the slices at two places. Yields
// the first place of each group, and the inverse and counts that are asked for (else empty).
struct Groups {
  std::vector<int64_t> firsts;
  Tensor inverse;
  Tensor counts;
};

template <typename Equal>
Groups group(int64_t n, const int64_t* order, bool return_inverse, bool return_counts,
             const Equal& equal) {
  Groups groups;
  std::vector<int64_t> counts;
  groups.inverse = empty_tensor({return_inverse ? n : 0}, ScalarType::Int64);
  int64_t* const inverse = groups.inverse.data_as<int64_t>();
  in_pieces(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = order ? order[i] : i;
      const int64_t before = i == 0 ? 0 : order ? order[i - 1] : i - 1;
      if (i == 0 || !equal(before, place)) {
        groups.firsts.push_back(place);
        counts.push_back(0);
      }
      ++counts.back();
      if (return_inverse) inverse[place] = static_cast<int64_t>(counts.size()) - 1;
    }
  });
  const int64_t found = return_counts ? static_cast<int64_t>(counts.size()) : 0;
  groups.counts = empty_tensor({found}, ScalarType::Int64);
  std::copy_n(counts.data(), found, groups.counts.data_as<int64_t>());
  return groups;
}

// Slices of `width` elements each, copied from their places.
Tensor pick(const Tensor& slices, const std::vector<int64_t>& places, IntArrayRef sizes) {
  const Tensor picked = empty_tensor(sizes, slices.dtype());
  const auto count = static_cast<int64_t>(places.size());
  const size_t bytes =
      count == 0 ? 0 : static_cast<size_t>(picked.numel() / count) * element_size(slices.dtype());
  const char* from = static_cast<const char*>(slices.data());
  char* to = static_cast<char*>(picked.data());
  for (const int64_t place : places) {
    std::memcpy(to, from + static_cast<size_t>(place) * bytes, bytes);
    to += bytes;
  }
  return picked;
}

// Whole numbers that span few values are counted instead of sorted.
template <typename T>
struct Span {
  T least;
  uint64_t size;  // of values
};
template <typename T>
Span<T> span_of(const T* data, int64_t n) {
  T least = data[0], most = data[0];
  for (int64_t i = 1; i < n; ++i) {
    least = std::min(least, data[i]);
    most = std::max(most, data[i]);
  }
  const uint64_t width = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  return {least, std::max(width + 1, width)};
}

template <typename T>
Found unique_by_counting(const Tensor& flat, Span<T> span, bool return_inverse,
                         bool return_counts) {
  const T* data = flat.data_as<T>();
  const int64_t n = flat.numel();
  const auto slot = [&](T value) {
    return static_cast<size_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(span.least));
  };
  std::vector<int64_t> counts(span.size);
  for (int64_t i = 0; i < n; ++i) ++counts[slot(data[i])];
  const auto empty = std::count(counts.begin(), counts.end(), 0);
  const int64_t found = static_cast<int64_t>(counts.size()) - empty;
  const Tensor values = empty_tensor({found}, flat.dtype());
  const Tensor sizes = empty_tensor({return_counts ? found : 0}, ScalarType::Int64);
  const Tensor inverse = empty_tensor({return_inverse ? n : 0}, ScalarType::Int64);
  int64_t group = 0;
  for (size_t i = 0; i < span.size; ++i) {
    if (counts[i] == 0) continue;
    values.data_as<T>()[group] = static_cast<T>(static_cast<uint64_t>(span.least) + i);
    if (return_counts) sizes.data_as<int64_t>()[group] = counts[i];
    counts[i] = group++;
  }
  for (int64_t i = 0; return_inverse && i < n; ++i)
    inverse.data_as<int64_t>()[i] = counts[slot(data[i])];
  return {values, inverse, sizes};
}

constexpr int64_t kRadixFrom = 4096;  // fewer elements do not repay the counters

// Whole numbers by their distance from the least: the digits that all share cost no pass.
struct Distance {
  uint64_t value;
  uint64_t key() const { return value; }
};
template <typename T>
Found unique_by_distance(const Tensor& flat, Span<T> span, bool return_counts) {
  const T* data = flat.data_as<T>();
  const int64_t n = flat.numel();
  const std::unique_ptr<Distance[]> buffer(new Distance[static_cast<size_t>(2 * n)]);
  const auto least = static_cast<uint64_t>(span.least);
  for (int64_t i = 0; i < n; ++i) buffer[static_cast<size_t>(i)] = {uint64_t(data[i]) - least};
  const int bits = std::bit_width(span.size - 1);
  const Distance* sorted = sorting::radix_sort<11>(n, bits, buffer.get(), buffer.get() + n);
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || sorted[i].value != sorted[i - 1].value) begins.push_back(i);
  }
  const auto found = static_cast<int64_t>(begins.size());
  begins.push_back(n);
  const Tensor values = empty_tensor({found}, flat.dtype());
  const Tensor sizes = empty_tensor({return_counts ? found : 0}, ScalarType::Int64);
  for (int64_t g = 0; g < found; ++g) {
    const int64_t begin = begins[static_cast<size_t>(g)], end = begins[static_cast<size_t>(g) + 1];
    values.data_as<T>()[g] = static_cast<T>(sorted[begin].value + least);
    if (return_counts) sizes.data_as<int64_t>()[g] = end - begin;
  }
  return {values, empty_tensor({0}, ScalarType::Int64), sizes};
}

Found unique_by_sorting(const Tensor& flat, bool sorted, bool return_inverse, bool return_counts) {
  const int64_t n = flat.numel();
  Tensor order;
  if (sorted) {
    const Tensor line = plain_view(flat, {IntArrayRef(n), IntArrayRef(int64_t{1}), 0});
    order = std::get<1>(ops::_sort::call(line, 0, false));
  }
  Groups groups;
  dispatch_ordered(flat.dtype(), "unique", [&]<typename T>() {
    const T* data = flat.data_as<T>();
    groups = group(n, sorted ? order.data_as<int64_t>() : nullptr, return_inverse, return_counts,
                   [data](int64_t a, int64_t b) { return data[a] == data[b]; });
  });
  const auto count = static_cast<int64_t>(groups.firsts.size());
  return {pick(flat, groups.firsts, {count}), groups.inverse, groups.counts};
}

Found unique_elements(const Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  const Tensor flat = contiguous_tensor(self);
  const int64_t n = flat.numel();
  Found found;
  bool is_done = false;
  dispatch_ordered(flat.dtype(), "unique", [&]<typename T>() {
    if constexpr (is_whole<T>) {
      if (!sorted || n == 0) return;
      const Span<T> span = span_of(flat.data_as<T>(), n);
      const bool is_narrow = span.size <= static_cast<uint64_t>(2 * n) + 1024;
      is_done = is_narrow || (!return_inverse && n >= kRadixFrom);
      if (is_narrow) {
        found = unique_by_counting<T>(flat, span, return_inverse, return_counts);
      } else if (is_done) {
        found = unique_by_distance<T>(flat, span, return_counts);
      }
    }
  });
  if (!is_done) found = unique_by_sorting(flat, sorted, return_inverse, return_counts);
  auto& inverse = std::get<1>(found);
  if (return_inverse)
    inverse = plain_view(inverse, {self.sizes(), contiguous_strides(self.sizes()), 0});
  return found;
}

// The places of n slices in ascending order.
template <typename T>
std::vector<int64_t> slice_order(const T* data, int64_t n, int64_t width) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) {
    for (const T *x = data + a * width, *y = data + b * width, *end = x + width; x < end;
         ++x, ++y) {
      if (order_key(*x) != order_key(*y)) return order_key(*x) < order_key(*y);
    }
    return false;
  });
  return order;
}

Found unique_slices(const Tensor& self, int64_t dim, bool sorted, bool return_inverse,
                    bool return_counts) {
  const int64_t along = wrap_dim(dim, self.dim());
  const Tensor first = ops::movedim_int::call(self, along, 0);
  const Tensor slices = contiguous_tensor(first);
  const int64_t n = self.dim() ? slices.size(0) : 1;
  const int64_t width = n ? slices.numel() / n : 0;
  check(n > 0 ? width > 0 : std::count(self.sizes().begin(), self.sizes().end(), 0) == 1,
        "unique: expected no empty dimension besides the given one, got ", self);
  Groups groups;
  dispatch_ordered(self.dtype(), "unique_dim", [&]<typename T>() {
    const T* data = slices.data_as<T>();
    const std::vector<int64_t> order =
        sorted ? slice_order(data, n, width) : std::vector<int64_t>();
    groups = group(n, sorted ? order.data() : nullptr, return_inverse, return_counts,
                   [=](int64_t a, int64_t b) {
                     return std::equal(data + a * width, data + (a + 1) * width, data + b * width);
                   });
  });
  DimVector sizes(slices.sizes());
  if (self.dim()) sizes[0] = static_cast<int64_t>(groups.firsts.size());
  const Tensor picked = pick(slices, groups.firsts, sizes);
  return {ops::movedim_int::call(picked, 0, along), groups.inverse, groups.counts};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique2_cpu(const Tensor& self, bool, bool return_inverse,
                                               bool return_counts) {
  return unique_elements(self, true, return_inverse, return_counts);
}

std::tuple<Tensor, Tensor, Tensor> unique_dim_cpu(const Tensor& self, int64_t dim, bool,
                                                  bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, true, return_inverse, return_counts);
}

std::tuple<Tensor, Tensor, Tensor> unique_consecutive_cpu(const Tensor& self, bool return_inverse,
                                                          bool return_counts,
                                                          std::optional<int64_t> dim) {
  if (!dim) return unique_elements(self, false, return_inverse, return_counts);
  return unique_slices(self, *dim, false, return_inverse, return_counts);
}

}  // namespace flambeau::ops
