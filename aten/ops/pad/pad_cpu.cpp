// Padding on CPU. Constant: the input's place in the result is copied, the rest filled.
// Formula:
//   at edges, along one dimension of size n, output o is a copy of the element at p = o - before:
//   reflect    |p| mirrored at n - 1 as well, so before, after < n;
//   replicate  p limited to [0, n - 1];
//   circular   p modulo n, at most once around.
// Accumulates in: copies: none, values are moved; the transposed map sums in the accumulate type.
// NaN, infinity: both are moved; sums follow IEEE arithmetic.
// Error: copies are exact; gradients: n eps of the sum of magnitudes of the n copies.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/resample/taps.h"
#include "torchgen_out/aten/pad_kernels.h"

namespace flambeau::ops {
namespace {

// The input's element that each output along a dimension is a copy of.
std::vector<int64_t> edge_sources(int64_t n, int64_t before, int64_t after, std::string_view mode) {
  std::vector<int64_t> index;
  if (mode == "circular") {  // what is cut off does not come back around
    const int64_t first = std::max<int64_t>(0, -before);
    const int64_t kept = n - first - std::max<int64_t>(0, -after);
    for (int64_t p = std::max<int64_t>(0, before); p > 0; --p)
      index.push_back(first + (kept - p % kept) % kept);
    for (int64_t p = 0; p < kept + std::max<int64_t>(0, after); ++p)
      index.push_back(first + p % kept);
    return index;
  }
  for (int64_t p = -before; p < n + after; ++p) {
    if (mode == "reflect") {
      const int64_t q = p < 0 ? -p : p;
      index.push_back(q < n ? q : 2 * (n - 1) - q);
    } else {
      index.push_back(std::clamp<int64_t>(p, 0, n - 1));
    }
  }
  return index;
}

resample::Taps edge_taps(int64_t n, int64_t before, int64_t after, std::string_view mode) {
  return resample::copying(edge_sources(n, before, after, mode));
}

// How one row becomes a longer one: `length` neighbours as a block, single elements around it.
struct RowCopy {
  std::vector<int64_t> index;
  int64_t begin = 0, length = 0;

  explicit RowCopy(std::vector<int64_t> sources) : index(std::move(sources)) {
    const auto n = static_cast<int64_t>(index.size());
    const auto follows = [&](int64_t i) {
      return index[static_cast<size_t>(i)] == index[static_cast<size_t>(i - 1)] + 1;
    };
    for (int64_t first = 0, i = 1; i <= n; ++i) {
      if (i < n && follows(i)) continue;
      if (i - first > length) begin = first, length = i - first;
      first = i;
    }
  }
  // Elements of `inner` numbers each.
  template <typename T>
  void run(const T* from, T* to, int64_t inner) const {
    const auto n = static_cast<int64_t>(index.size());
    const int64_t* at = index.data();
    const auto edge = [&](int64_t i) {
      if (inner == 1) {
        to[i] = from[at[i]];
      } else {
        std::copy_n(from + at[i] * inner, inner, to + i * inner);
      }
    };
    for (int64_t i = 0; i < begin; ++i) edge(i);
    std::copy_n(from + at[begin] * inner, length * inner, to + begin * inner);
    for (int64_t i = begin + length; i < n; ++i) edge(i);
  }
};

// Where each row of the last dimensions of the output begins in the input, in rows.
std::vector<int64_t> source_rows(IntArrayRef sizes, IntArrayRef pad, std::string_view mode) {
  std::vector<int64_t> rows{0};
  for (size_t i = pad.size() / 2; i-- > 1;) {
    const int64_t n = sizes[sizes.size() - 1 - i];
    const std::vector<int64_t> along = edge_sources(n, pad[2 * i], pad[2 * i + 1], mode);
    std::vector<int64_t> finer;
    finer.reserve(rows.size() * along.size());
    for (const int64_t row : rows) {
      for (const int64_t place : along) finer.push_back(row * n + place);
    }
    rows = std::move(finer);
  }
  return rows;
}

// Constant padding of a tensor whose rows, the last dimension that is padded and what follows it,
// are contiguous on both sides.
class FramedRows {
 public:
  FramedRows(const Tensor& self, IntArrayRef pad, const Tensor& out)
      : in_(self.sizes()), strides_(self.strides()), out_(out.sizes()), result_(out) {
    const size_t ndim = in_.size(), padded = pad.size() / 2;
    size_t trailing = 0;
    while (trailing < padded && pad[2 * trailing] == 0 && pad[2 * trailing + 1] == 0) ++trailing;
    usable_ = trailing < padded && out.is_contiguous() && out.numel() > 0 && self.numel() > 0;
    if (!usable_) return;
    outer_ = ndim - 1 - trailing;
    int64_t dense = 1;
    for (size_t d = ndim; d-- > outer_; dense *= in_[d]) {
      usable_ &= in_[d] == 1 || strides_[d] == dense;
      if (d > outer_) inner_ *= in_[d];
    }
    for (size_t d = 0; d < ndim; ++d) {
      const size_t i = ndim - 1 - d;
      before_.push_back(i < padded ? pad[2 * i] : 0);
    }
  }
  bool usable() const { return usable_; }

  template <typename T>
  void run(const T* from, T value) const {
    const int64_t width = out_[outer_] * inner_, rows = outer_ ? out_[outer_ - 1] : 1;
    T* const to = static_cast<T*>(result_.data());
    parallel_for(0, result_.numel() / width, width, [&](int64_t begin, int64_t end) {
      while (begin < end) {  // rows that differ only in the dimension before theirs
        const int64_t slab = begin / rows, stop = std::min(end, (slab + 1) * rows);
        write_rows(from, slab, begin - slab * rows, stop - slab * rows, value, to + begin * width);
        begin = stop;
      }
    });
  }

 private:
  // Where a slab of the input begins that a slab of the output holds; -1: it holds none.
  int64_t source_of(int64_t slab) const {
    int64_t offset = 0;
    for (size_t d = outer_ ? outer_ - 1 : 0; d-- > 0;) {
      const int64_t place = slab % out_[d] - before_[d];
      if (place < 0 || place >= in_[d]) return -1;
      offset += place * strides_[d];
      slab /= out_[d];
    }
    return offset;
  }
  template <typename T>
  void write_rows(const T* from, int64_t slab, int64_t first, int64_t last, T value, T* to) const {
    const int64_t m = out_[outer_], width = m * inner_, source = source_of(slab);
    const int64_t above = outer_ ? before_[outer_ - 1] : 0, rows = outer_ ? in_[outer_ - 1] : 1;
    const int64_t begin = source < 0 ? last : std::clamp(above, first, last);
    const int64_t end = std::clamp(above + rows, begin, last);
    const int64_t head = std::clamp<int64_t>(before_[outer_], 0, m);
    const int64_t skipped = std::max<int64_t>(0, -before_[outer_]);
    const int64_t kept = std::clamp<int64_t>(in_[outer_] - skipped, 0, m - head) * inner_;
    T* filled = to;  // up to here; what lies between two copies is filled at once
    for (int64_t r = begin; r < end; ++r) {
      T* const row = to + (r - first) * width + head * inner_;
      fill(filled, row - filled, value);
      const int64_t step = outer_ ? (r - above) * strides_[outer_ - 1] : 0;
      std::copy_n(from + source + step + skipped * inner_, kept, row);
      filled = row + kept;
    }
    fill(filled, to + (last - first) * width - filled, value);
  }
  template <typename T>
  static void fill(T* to, int64_t n, T value) {
    constexpr int64_t kShort = 16;  // elements that do not repay a call
    if (n > kShort) {
      return splat(reinterpret_cast<const char*>(&value), sizeof(T), n,
                   reinterpret_cast<char*>(to));
    }
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  }

  IntArrayRef in_, strides_, out_;
  const Tensor& result_;
  DimVector before_;
  size_t outer_ = 0;   // dimensions before the row's
  int64_t inner_ = 1;  // elements of one step along the row
  bool usable_ = false;
};

}  // namespace

void constant_pad_nd_cpu(const Tensor& self, IntArrayRef pad, const Scalar& value, Tensor& out) {
  const FramedRows rows(self, pad, out);
  if (rows.usable()) {
    return dispatch_stored(self.dtype(), "constant_pad_nd", [&]<typename T>() {
      rows.run(static_cast<const T*>(self.data()), value.to<T>());
    });
  }
  ViewGeometry from{DimVector(self.sizes()), DimVector(self.strides()), self.storage_offset(),
                    self.dtype()};
  ViewGeometry to{DimVector(out.sizes()), DimVector(out.strides()), out.storage_offset(),
                  out.dtype()};
  bool grows = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = self.sizes().size() - 1 - i;
    const int64_t before = pad[2 * i], after = pad[2 * i + 1];
    from.storage_offset += std::max<int64_t>(0, -before) * from.strides[d];
    to.storage_offset += std::max<int64_t>(0, before) * to.strides[d];
    const int64_t kept =
        self.sizes()[d] - std::max<int64_t>(0, -before) - std::max<int64_t>(0, -after);
    from.sizes[d] = to.sizes[d] = std::max<int64_t>(0, kept);
    grows |= before > 0 || after > 0;
  }
  if (grows) fill_with(out, value);
  if (numel_of(to.sizes) > 0) copy_into(plain_view(out, to), plain_view(self, from));
}

void pad_edge_cpu(const Tensor& self, int64_t dim, int64_t before, int64_t after,
                  std::string_view mode, Tensor& out) {
  if (out.numel() == 0) return;
  resample::apply(edge_taps(self.size(dim), before, after, mode), self, dim, out);
}

namespace {

// Row-major tensors whose last dimensions but `trailing` are padded.
void pad_rows(const Tensor& in, IntArrayRef pad, std::string_view mode, size_t trailing,
              const Tensor& out) {
  const IntArrayRef sizes = in.sizes().slice(0, in.sizes().size() - trailing);
  const int64_t n = sizes[sizes.size() - 1], m = out.sizes()[sizes.size() - 1];
  const int64_t inner = trailing ? in.size(-1) : 1;
  const RowCopy row(edge_sources(n, pad[0], pad[1], mode));
  const std::vector<int64_t> sources = source_rows(sizes, pad, mode);
  const auto rows = static_cast<int64_t>(sources.size());
  const int64_t count = out.numel() / m / inner;
  const int64_t rows_in = in.numel() / n / inner / (count / rows);
  dispatch_by_size(element_size(in.dtype()), "pad", [&]<typename T>() {
    const T* from = static_cast<const T*>(in.data());
    T* to = static_cast<T*>(out.data());
    parallel_for(0, count, m * inner, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t source = r / rows * rows_in + sources[static_cast<size_t>(r % rows)];
        row.run(from + source * n * inner, to + r * m * inner, inner);
      }
    });
  });
}

}  // namespace

void pad_edges_cpu(const Tensor& self, IntArrayRef pad, std::string_view mode, Tensor& out) {
  if (out.numel() == 0) return;
  if (pad.empty()) return copy_into(out, self);
  if (is_channels_last_ordered(out)) {
    pad_rows(channels_to_back(dense_in_format_of(self, out)), pad, mode, 1, channels_to_back(out));
  } else {
    pad_rows(contiguous_tensor(self), pad, mode, 0, out);
  }
}

void pad_edge_backward_cpu(const Tensor& grad_output, int64_t dim, int64_t before, int64_t after,
                           std::string_view mode, Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t n = out.size(dim);
  resample::apply(resample::transposed(edge_taps(n, before, after, mode), n), grad_output, dim,
                  out);
}

}  // namespace flambeau::ops

namespace flambeau::shape {

namespace {

// Two numbers for each of the last dimensions.
void check_pairs(const Tensor& self, IntArrayRef pad) {
  check(pad.size() % 2 == 0, "pad: expected an even number of lengths, got ", pad);
  check(pad.size() <= 2 * self.sizes().size(),
        "pad: expected at most twice as many lengths as dimensions, got ", pad, " for ", self);
}

}  // namespace

void constant_pad(const Tensor& self, IntArrayRef pad, OutSpec* out) {
  check_pairs(self, pad);
  DimVector sizes(self.sizes());
  bool grows = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    grows |= pad[2 * i] > 0 || pad[2 * i + 1] > 0;
    int64_t& size = sizes[sizes.size() - 1 - i];
    const int64_t was = size;
    const int64_t before = pad[2 * i], after = pad[2 * i + 1];
    // Padding on one side does not compensate for a cut on the other.
    const bool is_cut = before < -size || after < -size - std::min<int64_t>(before, 0);
    check(!is_cut, "pad: expected an output size of 0 or more in dimension ",
          int64_t(sizes.size() - 1 - i), " of size ", was,
          ", got negative output size from padding (", before, ", ", after, ")");
    size = sum_of("pad", size, sum_of("pad", before, after));
  }
  *out = {sizes, {}, self.dtype(), self.device()};
  if (grows) return keep_format(self, out);
  const Tensor part = plain_view(self, {sizes, DimVector(self.strides()), self.storage_offset()});
  out->strides = preserved_strides(part);
}

namespace {

// Whether `before` and `after` fit dimension `dim` of `sizes`; the size they give it.
int64_t padded_edge(IntArrayRef sizes, int64_t dim, int64_t before, int64_t after,
                    std::string_view mode) {
  check(mode == "reflect" || mode == "replicate" || mode == "circular",
        "pad: expected mode 'constant', 'reflect', 'replicate' or 'circular', got '", mode, "'");
  const int64_t n = sizes[static_cast<size_t>(dim)];
  constexpr int64_t kMost = int64_t{1} << 62;
  check(std::max(before, after) < kMost && std::min(before, after) > -kMost,
        "pad: expected lengths between -2^62 and 2^62, got (", before, ", ", after,
        ") at dimension ", dim);
  const int64_t padded = sum_of("pad", n, sum_of("pad", before, after));
  if (mode == "reflect") {
    check(before < n && after < n, "reflect pad: expected less padding than elements, got (",
          before, ", ", after, ") at dimension ", dim, " of shape ", sizes);
  } else if (mode == "circular") {
    check(before <= n && after <= n, "circular pad: expected padding of at most the size, got (",
          before, ", ", after, ") at dimension ", dim, " of shape ", sizes,
          " (wrapping around more than once)");
    const int64_t kept =
        sum_of("pad", n, sum_of("pad", std::min<int64_t>(0, before), std::min<int64_t>(0, after)));
    check(n == 0 || kept > 0, "circular pad: expected padding that leaves elements, got (", before,
          ", ", after, ") at dimension ", dim, " of shape ", sizes);
  }
  const bool copies_nothing = n == 0 && before <= 0 && after <= 0;
  check(n > 0 || copies_nothing, "pad: Expected a non-empty dimension ", dim,
        ", got input of size ", sizes);
  check(padded >= (n > 0), mode == "circular" ? "circular pad" : "pad",
        ": expected padding that leaves elements, got (", before, ", ", after, ") at dimension ",
        dim, " of shape ", sizes);
  return padded;
}

}  // namespace

void pad_edge(const Tensor& self, int64_t dim, int64_t before, int64_t after, std::string_view mode,
              OutSpec* out) {
  check(self.dim() > 0, "pad: expected a tensor with dimensions, got a 0-dim tensor");
  dim = wrap_dim(dim, self.dim());
  DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(dim)] = padded_edge(self.sizes(), dim, before, after, mode);
  *out = {sizes, {}, self.dtype(), self.device()};
  keep_format(self, out);
}

void pad_edges(const Tensor& self, IntArrayRef pad, std::string_view mode, OutSpec* out) {
  check_pairs(self, pad);
  DimVector sizes(self.sizes());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = sizes.size() - 1 - i;
    sizes[d] = padded_edge(self.sizes(), static_cast<int64_t>(d), pad[2 * i], pad[2 * i + 1], mode);
  }
  *out = {sizes, {}, self.dtype(), self.device()};
  if (pad.size() / 2 + 2 <= sizes.size()) keep_format(self, out);  // the channels stay as they are
}

void pad_edge_backward(const Tensor& grad_output, int64_t dim, int64_t before, int64_t after,
                       std::string_view mode, OutSpec* out) {
  check(grad_output.dim() > 0, "pad_backward: expected a gradient with dimensions, got a scalar");
  dim = wrap_dim(dim, grad_output.dim());
  DimVector sizes(grad_output.sizes());
  int64_t& size = sizes[static_cast<size_t>(dim)];
  int64_t left = 0;
  const bool overflow =
      __builtin_sub_overflow(size, before, &left) || __builtin_sub_overflow(left, after, &left);
  check(!overflow && left >= 0, "pad_backward: expected a gradient at least as large as padding (",
        before, ", ", after, ") at dimension ", dim, ", got ", grad_output);
  size = left;
  padded_edge(sizes, dim, before, after, mode);
  *out = {sizes, {}, grad_output.dtype(), grad_output.device()};
  keep_format(grad_output, out);
}

}  // namespace flambeau::shape
