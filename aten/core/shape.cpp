#include "aten/core/shape.h"

#include <algorithm>

#include "aten/core/broadcast.h"

namespace flambeau {

bool broadcast_into(DimVector& sizes, IntArrayRef other) {
  while (sizes.size() < other.size()) sizes.insert(0, 1);
  int64_t* last = sizes.data() + (sizes.size() - other.size());
  for (size_t d = 0; d < other.size(); ++d) {
    if (last[d] == other[d] || other[d] == 1) continue;
    if (last[d] != 1) return false;
    last[d] = other[d];
  }
  return true;
}

DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b) {
  const size_t ndim = std::max(a.size(), b.size());
  DimVector out(ndim);
  for (size_t back = 1; back <= ndim; ++back) {
    const int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    check(x == y || x == 1 || y == 1, "shapes do not broadcast: at dimension ", ndim - back,
          " the size of tensor a (", x, ") must match the size of tensor b (", y, ") or be 1");
    out[ndim - back] = x == 1 ? y : x;
  }
  return out;
}

bool is_broadcastable_to(IntArrayRef from, IntArrayRef to) {
  if (from.size() > to.size()) return false;
  const size_t skip = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != to[skip + d] && from[d] != 1) return false;
  }
  return true;
}

int64_t wrap_dim(int64_t dim, int64_t ndim) {
  const int64_t range = ndim > 0 ? ndim : 1;
  check_index(dim >= -range && dim < range, "Dimension out of range: expected one in range of [",
              -range, ", ", range - 1, "], got ", dim);
  return dim < 0 ? dim + range : dim;
}

uint64_t dim_mask(IntArrayRef dims, int64_t ndim) {
  check(ndim <= 64, "expected at most 64 dims where several are named, got ", ndim);
  uint64_t mask = 0;
  for (const int64_t dim : dims) {
    const int64_t d = wrap_dim(dim, ndim);
    const uint64_t bit = uint64_t{1} << d;
    check(!(mask & bit), "dim ", d, " appears multiple times in dims");
    mask |= bit;
  }
  return mask;
}

int64_t numel_of(IntArrayRef sizes) {
  int64_t n = 1;
  bool overflow = false;
  bool empty = false;
  for (const int64_t s : sizes) {
    check(s >= 0, "negative dimension ", s, " in shape ", sizes);
    empty |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (empty) return 0;
  check(!overflow, "Storage size calculation overflowed: sizes ", sizes);
  return n;
}

int64_t extent_of(IntArrayRef sizes, IntArrayRef strides) {
  const bool empty = numel_of(sizes) == 0;
  int64_t extent = 1;
  bool overflow = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    check(strides[d] >= 0, "negative strides are not supported, got strides ", strides);
    int64_t reach = 0;
    if (empty) continue;
    overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach);
    overflow |= __builtin_add_overflow(extent, reach, &extent);
  }
  check(!overflow, "Storage size calculation overflowed: sizes ", sizes, ", strides ", strides);
  return empty ? 0 : extent;
}

int64_t product_of(const char* what, int64_t a, int64_t b) {
  int64_t result = 0;
  check(!__builtin_mul_overflow(a, b, &result), what, ": integer overflow in ", a, " * ", b);
  return result;
}

int64_t sum_of(const char* what, int64_t a, int64_t b) {
  int64_t result = 0;
  check(!__builtin_add_overflow(a, b, &result), what, ": integer overflow in ", a, " + ", b);
  return result;
}

int64_t difference_of(const char* what, int64_t a, int64_t b) {
  int64_t result = 0;
  check(!__builtin_sub_overflow(a, b, &result), what, ": integer overflow in ", a, " - ", b);
  return result;
}

int64_t window_room(const char* what, int64_t in, int64_t kernel, int64_t padding,
                    int64_t dilation) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t reach = product_of(what, dilation, kernel - 1);
  check(in <= kMost && reach <= kMost && padding <= kMost, what, ": integer overflow for size ", in,
        ", padding ", padding, " and windows of ", reach, " elements");
  return in + 2 * padding - reach - 1;
}

DimVector contiguous_strides(IntArrayRef sizes) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  bool overflow = false;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    if (d > 0) overflow |= __builtin_mul_overflow(step, std::max<int64_t>(sizes[d], 1), &step);
  }
  check(!overflow, "Stride calculation overflowed with sizes=", sizes);
  return strides;
}

DimVector channels_last_strides(IntArrayRef sizes) {
  check(sizes.size() == 4 || sizes.size() == 5,
        "channels_last: expected 4 dimensions (5 for channels_last_3d), got ", sizes.size());
  DimVector strides(sizes.size());
  int64_t step = 1;
  const auto assign = [&](size_t d) {
    strides[d] = step;
    step = product_of("strides", step, std::max<int64_t>(sizes[d], 1));
  };
  assign(1);
  for (size_t d = sizes.size(); d-- > 2;) assign(d);
  strides[0] = step;
  return strides;
}

DimVector infer_size(IntArrayRef shape, int64_t numel) {
  DimVector out(shape);
  int64_t known = 1;
  bool overflow = false, empty = false;
  size_t unknown = shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      check(unknown == shape.size(),
            "expected -1 once at most (only one dimension can be inferred), "
            "got shape ",
            shape);
      unknown = d;
    } else {
      check(shape[d] >= 0, "expected sizes of 0 or more, or -1, got invalid shape dimension ",
            shape[d], " at index ", d, " of shape ", shape);
      empty |= shape[d] == 0;
      overflow |= __builtin_mul_overflow(known, shape[d], &known);
    }
  }
  if (empty) known = 0;
  overflow = overflow && !empty;  // a product beyond int64 fits no number of elements
  const bool infers = unknown != shape.size();
  const bool divides = infers ? (known == 0 ? numel == 0 : numel % known == 0) : known == numel;
  const bool fits = divides && !overflow;
  check(fits, "expected a shape of ", numel, " elements, got ", shape,
        ", which is invalid for input of size ", numel);
  if (infers) {
    check(known != 0, "expected a shape without -1 for a tensor of 0 elements, got ", shape,
          ": any size could replace -1");
    out[unknown] = numel / known;
  }
  return out;
}

std::optional<DimVector> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef shape) {
  if (std::ranges::find(sizes, 0) != sizes.end()) {
    return sizes == shape ? DimVector(strides) : contiguous_strides(shape);
  }
  DimVector out(shape.size());
  if (sizes.empty()) return contiguous_strides(shape);
  size_t next = shape.size();  // dims of `shape` below this are still to be placed
  // Walk runs of old dims that lie gapless in memory; each run must be split exactly by new dims.
  size_t d = sizes.size();
  while (d > 0) {
    const int64_t base = strides[d - 1];
    int64_t run = sizes[d - 1];
    --d;
    while (d > 0 && (sizes[d - 1] == 1 || strides[d - 1] == run * base)) {
      run *= sizes[d - 1];
      --d;
    }
    int64_t placed = 1;
    while (next > 0 && (placed < run || shape[next - 1] == 1)) {
      out[next - 1] = placed * base;
      placed *= shape[--next];
    }
    if (placed != run) return std::nullopt;
  }
  if (next > 0) return std::nullopt;
  return out;
}

DimVector reduced_sizes(IntArrayRef sizes, uint64_t mask, bool keepdim) {
  DimVector out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool reduced = mask >> d & 1;
    if (!reduced) {
      out.push_back(sizes[d]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

namespace {

struct ByteRange {
  int64_t begin;
  int64_t end;
};

// On an out-of-tree device counted from the beginning of the storage, whose address may be a
// handle.
int64_t address_of(const Tensor& t) {
  if (t.device().type != DeviceType::PrivateUse1) return reinterpret_cast<int64_t>(t.data());
  return t.storage_offset() * static_cast<int64_t>(element_size(t.dtype()));
}

ByteRange bytes_of(const Tensor& t) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    const int64_t reach = (t.sizes()[d] - 1) * t.strides()[d];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t bytes = static_cast<int64_t>(element_size(t.dtype()));
  const int64_t base = address_of(t);
  return {base + low * bytes, base + (high + 1) * bytes};
}

}  // namespace

Overlap overlap_of(const Tensor& a, const Tensor& b) {
  if (a.storage() == b.storage()) {
    if (a.numel() == 0 || b.numel() == 0 || a.is_meta()) return Overlap::No;
  } else if (a.numel() == 0 || b.numel() == 0 || !a.is_cpu() || !b.is_cpu()) {
    return Overlap::No;
  }
  const ByteRange x = bytes_of(a),
                  y = bytes_of(b);  // foreign memory may be wrapped by two storages
  if (x.end <= y.begin || y.end <= x.begin) return Overlap::No;
  if (a.is_same(b)) return Overlap::Full;
  const bool same_place = address_of(a) == address_of(b) && a.dtype() == b.dtype();
  if (same_place && a.sizes() == b.sizes() && a.strides() == b.strides()) return Overlap::Full;
  if (a.impl()->is_non_overlapping_and_dense() && b.impl()->is_non_overlapping_and_dense()) {
    return Overlap::Partial;
  }
  return Overlap::TooHard;
}

bool has_internal_overlap(const Tensor& t) {
  if (t.impl()->is_non_overlapping_and_dense() || t.numel() <= 1) return false;
  // Sorted by stride, each dimension must step over all that the smaller ones reach. A tensor that
  // fails this but does not overlap (odd as_strided) is taken to overlap only if a stride is zero.
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    if (t.sizes()[d] > 1 && t.strides()[d] == 0) return true;
  }
  return false;
}

}  // namespace flambeau
