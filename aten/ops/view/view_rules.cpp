// View rules: the geometry of a view from its base and arguments. A rule checks its arguments and
// never touches elements.
#include <algorithm>
#include <cstdlib>

#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::view {
namespace {

ViewGeometry geometry_of(const Tensor& self) {
  return {DimVector(self.sizes()), DimVector(self.strides()), self.storage_offset()};
}

size_t at(int64_t dim) { return static_cast<size_t>(dim); }

// Every dimension once, counted from the front.
DimVector permutation(const char* op, const Tensor& self, IntArrayRef dims) {
  check(static_cast<int64_t>(dims.size()) == self.dim(), op, ": expected one dim for each of ",
        self.dim(), " dimensions, got ", dims.size());
  DimVector wrapped(dims.size(), 0);
  DimVector seen(dims.size(), 0);  // a tensor may have more dimensions than a word has bits
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = wrap_dim(dims[i], self.dim());
    check(!seen[at(d)], op, ": expected every dimension once, got duplicate dims: ", dims);
    seen[at(d)] = 1;
    wrapped[i] = d;
  }
  return wrapped;
}

// Moves the view's first element by `steps` steps. Sizes and strides of empty tensors can be so
// large that no number holds the way.
void advance(ViewGeometry* g, const char* what, int64_t steps, int64_t stride) {
  int64_t way = 0;
  const bool overflow = __builtin_mul_overflow(steps, stride, &way) ||
                        __builtin_add_overflow(g->storage_offset, way, &g->storage_offset);
  check(!overflow, what, ": integer overflow in ", steps, " steps of ", stride, " elements");
}

}  // namespace

ViewGeometry alias(const Tensor& self) { return geometry_of(self); }

ViewGeometry view(const Tensor& self, IntArrayRef size) {
  ViewGeometry g{infer_size(size, self.numel()), {}, self.storage_offset()};
  const auto strides = view_strides(self.sizes(), self.strides(), g.sizes);
  check(
      strides.has_value(),
      "view size is not compatible with the strides: expected a shape that needs no copy of sizes ",
      self.sizes(), " with strides ", self.strides(), ", got ", size, "; use reshape()");
  g.strides = *strides;
  return g;
}

ViewGeometry view_as_dtype(const Tensor& self, ScalarType dtype) {
  check(dtype == self.dtype() || !(self.is_conj() || self.is_neg()),
        "view: expected no conjugate or negative view for another dtype, got one; call "
        "resolve_conj() or resolve_neg() first");
  ViewGeometry g = geometry_of(self);
  g.dtype = dtype;
  const auto from = static_cast<int64_t>(element_size(self.dtype()));
  const auto to = static_cast<int64_t>(element_size(dtype));
  if (from == to) return g;
  check(self.dim() > 0, "view: expected dimensions to view ", pytorch_name_of(self.dtype()), " as ",
        pytorch_name_of(dtype), " (different element sizes), got a 0-dim tensor");
  check(self.stride(-1) == 1, "view: expected a last stride of 1 to see ",
        pytorch_name_of(self.dtype()), " as ", pytorch_name_of(dtype), ", got ", self.stride(-1));
  const bool grows = to > from;
  const int64_t ratio = grows ? to / from : from / to;
  const auto convert = [&](int64_t count, const char* what) {
    check(!grows || count % ratio == 0, "self.", what, " must be divisible by ", ratio, " to view ",
          pytorch_name_of(self.dtype()), " as ", pytorch_name_of(dtype),
          " (different element sizes), but got ", count);
    return grows ? count / ratio : product_of("view", count, ratio);
  };
  g.sizes.back() = convert(g.sizes.back(), "size(-1)");
  g.storage_offset = convert(g.storage_offset, "storage_offset()");
  for (size_t d = 0; d + 1 < g.strides.size(); ++d) g.strides[d] = convert(g.strides[d], "stride");
  return g;
}

ViewGeometry transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  const int64_t a = wrap_dim(dim0, self.dim()), b = wrap_dim(dim1, self.dim());
  ViewGeometry g = geometry_of(self);
  if (self.dim() == 0) return g;
  std::swap(g.sizes[at(a)], g.sizes[at(b)]);
  std::swap(g.strides[at(a)], g.strides[at(b)]);
  return g;
}

ViewGeometry transpose_matrix(const Tensor& self) {
  check(self.dim() <= 2, "t(): expected 2 dimensions at most, got ", self.dim());
  return self.dim() == 2 ? transpose(self, 0, 1) : geometry_of(self);
}

ViewGeometry permute(const Tensor& self, IntArrayRef dims) {
  const DimVector sources = permutation("permute", self, dims);
  ViewGeometry g = geometry_of(self);
  for (size_t i = 0; i < dims.size(); ++i) {
    g.sizes[i] = self.size(sources[i]);
    g.strides[i] = self.stride(sources[i]);
  }
  return g;
}

ViewGeometry permute_back(const Tensor& self, IntArrayRef dims) {
  const DimVector targets = permutation("_permute_back", self, dims);
  ViewGeometry g = geometry_of(self);
  for (size_t i = 0; i < dims.size(); ++i) {
    g.sizes[at(targets[i])] = self.sizes()[i];
    g.strides[at(targets[i])] = self.strides()[i];
  }
  return g;
}

ViewGeometry expand(const Tensor& self, IntArrayRef size) {
  const int64_t added = static_cast<int64_t>(size.size()) - self.dim();
  check(added >= 0, "expand: expected at least ", self.dim(), " sizes for ", self, ", got ", size);
  ViewGeometry g{DimVector(size), DimVector(size.size()), self.storage_offset()};
  for (int64_t i = static_cast<int64_t>(size.size()) - 1; i >= 0; --i) {
    const int64_t d = i - added, wanted = size[at(i)];
    const int64_t have = d >= 0 ? self.size(d) : 1;
    check(wanted >= 0 || (wanted == -1 && d >= 0), "expand: expected a size of 0 or more for ",
          d >= 0 ? "" : "new ", "dimension ", i, ", got ", wanted);
    g.sizes[at(i)] = wanted == -1 ? have : wanted;
    check(g.sizes[at(i)] == have || have == 1, "expand: expected size ", have, " at dimension ", i,
          " (it must match the existing size), got sizes ", size, " for ", self);
    const bool repeats = have == 1 && g.sizes[at(i)] != 1;
    if (d < 0 && !repeats) {  // a new dimension of size 1 steps over all that follows
      g.strides[at(i)] = i + 1 < static_cast<int64_t>(size.size())
                             ? product_of("expand", g.sizes[at(i + 1)], g.strides[at(i + 1)])
                             : 1;
    } else {
      g.strides[at(i)] = repeats ? 0 : self.stride(d);
    }
  }
  return g;
}

namespace {

// Drops the dimensions of size 1 for which `wanted` holds.
template <typename Wanted>
ViewGeometry squeezed(const Tensor& self, const Wanted& wanted) {
  ViewGeometry g{{}, {}, self.storage_offset()};
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) == 1 && wanted(d)) continue;
    g.sizes.push_back(self.size(d));
    g.strides.push_back(self.stride(d));
  }
  return g;
}

}  // namespace

ViewGeometry squeeze(const Tensor& self) {
  return squeezed(self, [](int64_t) { return true; });
}

ViewGeometry squeeze_dim(const Tensor& self, int64_t dim) {
  const int64_t only = wrap_dim(dim, self.dim());
  return squeezed(self, [only](int64_t d) { return d == only; });
}

ViewGeometry squeeze_dims(const Tensor& self, IntArrayRef dim) {
  const uint64_t mask = dim_mask(dim, self.dim());
  return squeezed(self, [mask](int64_t d) { return (mask >> d & 1) != 0; });
}

ViewGeometry unsqueeze(const Tensor& self, int64_t dim) {
  const size_t d = at(wrap_dim(dim, self.dim() + 1));
  ViewGeometry g = geometry_of(self);
  const int64_t stride = d < g.sizes.size() ? product_of("unsqueeze", g.sizes[d], g.strides[d]) : 1;
  g.sizes.insert(d, 1);
  g.strides.insert(d, stride);
  return g;
}

ViewGeometry select(const Tensor& self, int64_t dim, int64_t index) {
  check_index(self.dim() > 0, NoDimension{"select"});
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  check_index(index >= -size && index < size, "select: expected an index from ", -size, " to ",
              size - 1, " at dimension ", d, " of ", self, ", got ", index, " (out of range)");
  ViewGeometry g = geometry_of(self);
  advance(&g, "select", index < 0 ? index + size : index, self.stride(d));
  g.sizes.erase(at(d));
  g.strides.erase(at(d));
  return g;
}

ViewGeometry slice(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                   std::optional<int64_t> end, int64_t step) {
  check_index(self.dim() > 0, NoDimension{"slice"});
  check(step > 0, "slice: expected a step >= 1 (slice step must be positive), got ", step);
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  const auto clip = [size](int64_t i, int64_t least) {
    return std::clamp(i < 0 ? i + size : i, least, size);
  };
  const int64_t first = clip(start.value_or(0), 0);
  const int64_t last = clip(end.value_or(size), first);
  ViewGeometry g = geometry_of(self);
  advance(&g, "slice", first, self.stride(d));
  g.sizes[at(d)] = (last - first) / step + ((last - first) % step != 0);
  g.strides[at(d)] = product_of("slice", g.strides[at(d)], step);
  return g;
}

ViewGeometry narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  check(self.dim() > 0, NoDimension{"narrow"});
  check(length >= 0, "narrow: expected a length of 0 or more, got ", length);
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  check_index(start >= -size && start <= size, "narrow: start out of range: expected one from ",
              -size, " to ", size, ", got ", start);
  if (start < 0) start += size;
  check(length <= size - start, "narrow: expected start + length of at most ", size, ", got ",
        start, " + ", length, ", which exceeds dimension size");
  ViewGeometry g = geometry_of(self);
  advance(&g, "narrow", start, self.stride(d));
  g.sizes[at(d)] = length;
  return g;
}

std::vector<ViewGeometry> split_with_sizes(const Tensor& self, IntArrayRef split_sizes,
                                           int64_t dim) {
  check(self.dim() > 0, NoDimension{"split"});
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  int64_t sum = 0;
  for (const int64_t s : split_sizes) {
    check(s >= 0, "split_with_sizes: expected sizes of 0 or more, got ", split_sizes);
    sum = sum_of("split_with_sizes", sum, s);
  }
  check(sum == size, "split_with_sizes: expected sizes that sum to ", size, ", as dimension ", dim,
        " has, got ", split_sizes);
  std::vector<ViewGeometry> pieces;
  pieces.reserve(split_sizes.size());
  ViewGeometry g = geometry_of(self);
  for (const int64_t s : split_sizes) {
    if (!pieces.empty()) advance(&g, "split", g.sizes[at(d)], self.stride(d));
    g.sizes[at(d)] = s;
    pieces.push_back(g);
  }
  return pieces;
}

std::vector<ViewGeometry> unbind(const Tensor& self, int64_t dim) {
  check_index(self.dim() > 0, MissingDimension{dim});
  const int64_t d = wrap_dim(dim, self.dim());
  ViewGeometry g = geometry_of(self);
  g.sizes.erase(at(d));
  g.strides.erase(at(d));
  std::vector<ViewGeometry> slices;
  slices.reserve(at(self.size(d)));
  for (int64_t i = 0; i < self.size(d); ++i) {
    slices.push_back(g);
    g.storage_offset += self.stride(d);
  }
  return slices;
}

ViewGeometry as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride,
                        std::optional<int64_t> storage_offset) {
  check(size.size() == stride.size(), LengthMismatch{size, stride});
  const int64_t offset = storage_offset.value_or(self.storage_offset());
  check(offset >= 0, "as_strided: expected a storage offset of 0 or more, got ", offset);
  for (const int64_t s : stride) {
    check(s >= 0, "as_strided: expected strides of 0 or more, got ", stride);
  }
  const int64_t extent = extent_of(size, stride);
  const auto item = static_cast<int64_t>(element_size(self.dtype()));
  const int64_t bytes = product_of("as_strided", sum_of("as_strided", offset, extent), item);
  const auto have = static_cast<int64_t>(self.storage()->nbytes());
  check(extent == 0 || bytes <= have, "as_strided: expected a view within ", have,
        " bytes of storage, got sizes ", size, ", strides ", stride, " and offset ", offset,
        ", which need ", bytes, " bytes (out of bounds)");
  return {DimVector(size), DimVector(stride), offset};
}

ViewGeometry diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t a = wrap_dim(dim1, self.dim()), b = wrap_dim(dim2, self.dim());
  check(a != b, "diagonal: expected different dimensions, got identical ", dim1, " and ", dim2);
  ViewGeometry g = geometry_of(self);
  const int64_t rows = self.size(a) + std::max(std::min<int64_t>(offset, 0), -self.size(a));
  const int64_t columns = self.size(b) - (offset > 0 ? offset : 0);
  const int64_t size = std::max<int64_t>(std::min(rows, columns), 0);
  if (size > 0) advance(&g, "diagonal", std::abs(offset), self.stride(offset >= 0 ? b : a));
  const int64_t stride = sum_of("diagonal", self.stride(a), self.stride(b));
  for (const int64_t d : {std::max(a, b), std::min(a, b)}) {
    g.sizes.erase(at(d));
    g.strides.erase(at(d));
  }
  g.sizes.push_back(size);
  g.strides.push_back(stride);
  return g;
}

ViewGeometry unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const int64_t d = wrap_dim(dimension, self.dim());
  const int64_t available = self.dim() == 0 ? 1 : self.size(d);
  check(size >= 0, "unfold: expected size >= 0, got ", size);
  check(size <= available, "unfold: expected a size of at most ", available, " at dimension ", d,
        ", got ", size);
  check(step > 0, "unfold: expected step > 0, got ", step);
  ViewGeometry g = geometry_of(self);
  if (self.dim() == 0) return {{size}, {1}, self.storage_offset()};
  g.sizes[at(d)] = (available - size) / step + 1;
  g.strides[at(d)] = product_of("unfold", self.stride(d), step);
  g.sizes.push_back(size);
  g.strides.push_back(self.stride(d));
  return g;
}

// The elements of a complex view are conjugated, those of another one negated, when they are read.
ViewGeometry conjugate(const Tensor& self) {
  ViewGeometry g = geometry_of(self);
  g.flips = DispatchKey::Conjugate;
  return g;
}

ViewGeometry negate(const Tensor& self) {
  ViewGeometry g = geometry_of(self);
  g.flips = DispatchKey::Negative;
  return g;
}

ViewGeometry view_as_real(const Tensor& self) {
  check(self.is_complex(), "view_as_real: expected a complex tensor, got ",
        pytorch_name_of(self.dtype()));
  check(!self.is_conj(),
        "view_as_real: expected a tensor without the conjugate bit, got a conjugate view, whose "
        "memory has the negated imaginary parts; call resolve_conj() first");
  ViewGeometry g = geometry_of(self);
  g.dtype = to_real_type(self.dtype());
  for (int64_t& s : g.strides) s = product_of("view_as_real", s, 2);
  g.storage_offset = product_of("view_as_real", g.storage_offset, 2);
  g.sizes.push_back(2);
  g.strides.push_back(1);
  return g;
}

ViewGeometry view_as_complex(const Tensor& self) {
  check(self.is_floating_point() && self.dtype() != ScalarType::BFloat16,
        "view_as_complex: expected dtype float16, float32 or float64, got ",
        pytorch_name_of(self.dtype()));
  check(self.dim() > 0, NoDimension{"view_as_complex"});
  check(self.size(-1) == 2, "view_as_complex: expected 2 elements in the last dimension, got ",
        self);
  check(self.stride(-1) == 1, "view_as_complex: expected 1 as the last stride, got ",
        self.stride(-1));
  ViewGeometry g = geometry_of(self);
  g.dtype = to_complex_type(self.dtype());
  g.sizes.pop_back();
  g.strides.pop_back();
  for (size_t d = 0; d < g.strides.size(); ++d) {
    check(g.strides[d] % 2 == 0 || g.sizes[d] <= 1,
          "view_as_complex: expected even strides before the last, got ", self.strides());
    g.strides[d] /= 2;
  }
  check(g.storage_offset % 2 == 0, "view_as_complex: expected an even storage_offset, got ",
        g.storage_offset);
  g.storage_offset /= 2;
  return g;
}

}  // namespace flambeau::view
