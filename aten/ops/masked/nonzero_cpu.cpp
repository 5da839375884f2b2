// nonzero on CPU. The result is laid out by columns, so that each dimension's coordinates are
// contiguous for indexing.
// Formula: the coordinates of the elements that are not 0, one row each, in row-major order.
// Accumulates in: none: indices are written.
// NaN, infinity: NaN and infinity are not 0; a complex number is 0 only if both parts are.
// Error: none: exact.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape_rules.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/masked_kernels.h"

namespace flambeau::ops {
namespace {

constexpr int64_t kBufferSize = 1024;

template <typename T>
bool is_nonzero(const T& value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return (value.bits & 0x7fff) != 0;
  } else if constexpr (is_complex_v<T>) {
    return value.re != 0 || value.im != 0;
  } else {
    return value != T(0);
  }
}

// Rows (the innermost dimension) are split into parts; a part's results begin at its entry in
// `starts`.
struct Parts {
  int64_t rows;
  int64_t columns;
  int64_t rows_each;
  std::vector<int64_t> starts;
  int64_t count() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t first_row(int64_t part) const { return part * rows_each; }
  int64_t end_row(int64_t part) const { return std::min(rows, (part + 1) * rows_each); }
};

template <typename T>
Parts count_parts(const T* data, int64_t numel, int64_t columns) {
  Parts parts{numel / columns, columns, 0, {}};
  parts.rows_each = std::max<int64_t>(1, kSerialCost / columns);
  parts.starts.resize(
      static_cast<size_t>((parts.rows + parts.rows_each - 1) / parts.rows_each + 1));
  parallel_for(0, parts.count(), parts.rows_each * columns, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t found = 0;
      const int64_t last = parts.end_row(part) * columns;
      for (int64_t i = parts.first_row(part) * columns; i < last; ++i) found += is_nonzero(data[i]);
      parts.starts[static_cast<size_t>(part) + 1] = found;
    }
  });
  for (size_t i = 1; i < parts.starts.size(); ++i) parts.starts[i] += parts.starts[i - 1];
  return parts;
}

// The coordinates of a row's start, counted up row by row.
class RowCounter {
 public:
  RowCounter(IntArrayRef sizes, int64_t row) : sizes_(sizes), at_(sizes.size()) {
    for (size_t d = sizes.size() - 1; d-- > 0;) {
      at_[d] = row % sizes[d];
      row /= sizes[d];
    }
  }
  void step() {
    for (size_t d = sizes_.size() - 1; d-- > 0;) {
      if (++at_[d] < sizes_[d]) return;
      at_[d] = 0;
    }
  }
  int64_t operator[](size_t d) const { return at_[d]; }

 private:
  IntArrayRef sizes_;
  DimVector at_;
};

// Writes the coordinates found in one part to columns of `total` entries.
template <typename T>
void fill_part(const T* data, IntArrayRef sizes, const Parts& parts, int64_t part, int64_t total,
               int64_t* out) {
  int64_t buffer[kBufferSize];
  const size_t last = sizes.size() - 1;
  int64_t* to = out + parts.starts[static_cast<size_t>(part)];
  RowCounter row(sizes, parts.first_row(part));
  for (int64_t r = parts.first_row(part); r < parts.end_row(part); ++r, row.step()) {
    const T* const from = data + r * parts.columns;
    for (int64_t begin = 0; begin < parts.columns; begin += kBufferSize) {
      const int64_t end = std::min(parts.columns, begin + kBufferSize);
      int64_t found = 0;
      for (int64_t j = begin; j < end; ++j) {
        buffer[found] = j;  // kept only if the count moves on
        found += is_nonzero(from[j]);
      }
      for (size_t d = 0; d < last; ++d)
        std::fill_n(to + static_cast<int64_t>(d) * total, found, row[d]);
      std::copy_n(buffer, found, to + static_cast<int64_t>(last) * total);
      to += found;
    }
  }
}

}  // namespace

Tensor nonzero_cpu(const Tensor& self) {
  const Tensor in = contiguous_tensor(self);
  const DimVector sizes = self.dim() ? DimVector(self.sizes()) : DimVector{1};
  Tensor result;
  dispatch_stored(in.dtype(), "nonzero", [&]<typename T>() {
    const T* const data = in.data_as<T>();
    const Parts parts = count_parts(data, in.numel(), std::max<int64_t>(sizes.back(), 1));
    const int64_t total = parts.starts.back();
    result =
        empty_strided_tensor({total, self.dim()}, {1, total}, ScalarType::Int64, self.device());
    if (self.dim() == 0) return;
    int64_t* const out = result.data_as<int64_t>();
    parallel_for(0, parts.count(), parts.rows_each * parts.columns * 2,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t part = begin; part < end; ++part)
                     fill_part(data, sizes, parts, part, total, out);
                 });
  });
  return result;
}

void nonzero_static_cpu(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  const Tensor found = nonzero_cpu(self);
  const DimVector sizes = {std::min(size, found.size(0)), self.dim()};
  fill_with(out, fill_value);
  copy_into(plain_view(out, {sizes, out.strides(), out.storage_offset()}),
            plain_view(found, {sizes, found.strides(), 0}));
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void nonzero_static(const Tensor& self, int64_t size, OutSpec* out) {
  sized(self, {size, self.dim()}, ScalarType::Int64, out);
}

}  // namespace flambeau::shape
