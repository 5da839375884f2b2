// Copies and fills of CPU tensors: the definitions behind aten/core/factory.h that move data.
#include "aten/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/device_copy.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/scratch.h"
#include "aten/cpu/transpose.h"

namespace flambeau {
namespace {

void copy_bytes(char* to, const char* from, int64_t bytes) {
  parallel_for(0, bytes, 1, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

// The dimension along which the source is contiguous while the destination is so along the first
// one; 0: there is none.
int transposed_dim(const StridedLoop& nest, int64_t bytes) {
  if (nest.strides[0][0] != bytes || nest.strides[1][0] == 0) return 0;
  if (nest.strides[1][0] == bytes) return 0;
  for (int d = 1; d < nest.ndim; ++d) {
    if (nest.strides[1][d] == bytes && nest.strides[0][d] != 0) return d;
  }
  return 0;
}

void transpose_nest(StridedLoop& nest, int dim, int64_t bytes) {
  constexpr int64_t kTileBytes = 1 << 17;
  nest.swap_dims(1, dim);
  const int64_t line = kTransposeLine / bytes, columns = std::min<int64_t>(nest.sizes[0], 4096);
  const int64_t rows = std::max<int64_t>(1, kTileBytes / (columns * kTransposeLine)) * line;
  const Tiles tiles(nest, columns, rows);
  const TransposeLoop transpose = transpose_loop(bytes);
  const int64_t cost = columns * std::min(rows, nest.sizes[1]) * bytes / 2 + 1;
  parallel_for(0, tiles.count(), cost, [&](int64_t begin, int64_t end) {
    tiles.visit(begin, end, [&](const Tile& tile) {
      transpose(tile.rows, tile.columns, tile.data[1], nest.strides[1][0], tile.data[0],
                nest.strides[0][1]);
    });
  });
}

// Whether each element of a run is repeated a few times: runs then go to each place in turn.
bool repeats_few(const StridedLoop& nest, int64_t from_bytes) {
  constexpr int64_t kFew = 16;
  return nest.ndim > 1 && nest.strides[1][0] == 0 && nest.sizes[0] < kFew &&
         nest.strides[1][1] == from_bytes && nest.sizes[1] > nest.sizes[0];
}

// A nest of two arrays, destination first. Rows go through the cast loop in one step; broadcast and
// transposed tiles through a buffer, so that both sides move in whole cache lines.
void copy_nest(StridedLoop& nest, CastLoop cast, int64_t to_bytes, int64_t from_bytes,
               CastLoop store) {
  nest.sort();
  nest.coalesce();
  if (cast == store && to_bytes == from_bytes) {
    if (const int dim = transposed_dim(nest, to_bytes)) return transpose_nest(nest, dim, to_bytes);
  }
  if (repeats_few(nest, from_bytes)) nest.swap_dims(0, 1);
  TileShape shape = buffered_tile_shape(nest);
  const bool broadcasts = nest.strides[1][0] == 0 && nest.sizes[0] > 1;
  const bool transposes = nest.ndim > 1 && nest.strides[1][1] != 0 &&
                          std::abs(nest.strides[1][1]) < std::abs(nest.strides[1][0]);
  const bool by_rows = !broadcasts && !transposes;
  if (by_rows && shape.rows == 1) shape.columns = std::min<int64_t>(nest.sizes[0], 16 * kBlock);
  const Tiles tiles(nest, shape.columns, shape.rows);
  const int64_t row_stride0 = nest.ndim > 1 ? nest.strides[0][1] : 0;
  const int64_t row_stride1 = nest.ndim > 1 ? nest.strides[1][1] : 0;
  const int64_t cost = shape.columns * shape.rows * (to_bytes + from_bytes) / 4 + 1;
  parallel_for(0, tiles.count(), cost, [&](int64_t begin, int64_t end) {
    Scratch<> scratch;
    char* const buffer = by_rows ? nullptr : scratch.take(shape.columns * shape.rows * to_bytes);
    tiles.visit(begin, end, [&](const Tile& tile) {
      if (by_rows) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          cast(tile.columns, tile.data[1] + r * row_stride1, nest.strides[1][0],
               tile.data[0] + r * row_stride0, nest.strides[0][0]);
        }
        return;
      }
      gather({tile.data[1], nest.strides[1][0], row_stride1, from_bytes, cast}, tile.columns,
             tile.rows, buffer, to_bytes);
      scatter(buffer, to_bytes, tile.columns, tile.rows,
              {tile.data[0], nest.strides[0][0], row_stride0, to_bytes, store});
    });
  });
}

void copy_cpu(const Tensor& self, const Tensor& source) {
  const bool same_type = self.dtype() == source.dtype();
  const int64_t to_bytes = static_cast<int64_t>(element_size(self.dtype()));
  const bool same_shape = self.sizes() == source.sizes();
  const bool same_layout =
      same_shape &&
      (self.is_contiguous() ? source.is_contiguous() : self.strides() == source.strides());
  if (same_type && same_layout && self.impl()->is_non_overlapping_and_dense()) {
    copy_bytes(static_cast<char*>(self.data()), static_cast<const char*>(source.data()),
               self.numel() * to_bytes);
    return;
  }
  StridedLoop nest;
  nest.set_sizes(self.sizes());
  nest.add(self);
  nest.add(source);
  copy_nest(nest, cast_loop(source.dtype(), self.dtype()), to_bytes,
            static_cast<int64_t>(element_size(source.dtype())),
            cast_loop(self.dtype(), self.dtype()));
}

// Bits that make an element of a floating dtype, little-endian, the negative or conjugate of
// itself.
uint64_t sign_bits(const Tensor& t, DispatchKeySet flips, int half) {
  const bool imaginary = half == 1 && t.is_complex();
  const bool flip =
      flips.has(DispatchKey::Negative) != (imaginary && flips.has(DispatchKey::Conjugate));
  return flip ? uint64_t{1} << (8 * element_size(to_real_type(t.dtype())) - 1) : 0;
}

template <typename Word>
void flip_signs(const Tensor& self, DispatchKeySet flips) {
  const int64_t parts = self.is_complex() ? 2 : 1;
  const auto even = static_cast<Word>(sign_bits(self, flips, 0));
  const auto odd = static_cast<Word>(sign_bits(self, flips, 1));
  StridedLoop nest;
  nest.set_sizes(self.sizes());
  nest.add(self);
  nest.sort();
  nest.coalesce();
  parallel_for(0, nest.numel() / nest.sizes[0], nest.sizes[0], [&](int64_t begin, int64_t end) {
    Odometer at(nest, 1);
    at.move_to(nest.data, begin);
    for (int64_t row = begin; row < end; ++row, at.step()) {
      for (int64_t i = 0; i < nest.sizes[0]; ++i) {
        Word* const element = reinterpret_cast<Word*>(at.data()[0] + i * nest.strides[0][0]);
        element[0] ^= even;
        if (parts == 2) element[1] ^= odd;
      }
    }
  });
}

// Integers wrap around; those without a sign as well.
template <typename Word>
void negate(const Tensor& self) {
  StridedLoop nest;
  nest.set_sizes(self.sizes());
  nest.add(self);
  Odometer at(nest);
  at.move_to(nest.data, 0);
  for (int64_t i = 0; i < self.numel(); ++i, at.step()) {
    Word* const element = reinterpret_cast<Word*>(at.data()[0]);
    *element = static_cast<Word>(0 - *element);
  }
}

// Conjugates or negates what memory holds.
void flip(const Tensor& self, DispatchKeySet flips) {
  const bool counts =
      self.is_complex() || (flips.has(DispatchKey::Negative) && self.dtype() != ScalarType::Bool);
  if (!counts || self.numel() == 0) return;
  dispatch_by_size(element_size(to_real_type(self.dtype())), "copy_", [&]<typename Word>() {
    if constexpr (std::is_integral_v<Word>) {
      if (is_differentiable_type(self.dtype())) return flip_signs<Word>(self, flips);
      return negate<Word>(self);
    }
  });
}

void copy_values(const Tensor& self, const Tensor& source) {
  const Overlap overlap = overlap_of(self, source);
  if (overlap == Overlap::Full) return;
  if (overlap == Overlap::No) return copy_cpu(self, source);
  const Tensor copy = empty_tensor(source.sizes(), source.dtype());
  copy_cpu(copy, source);
  copy_cpu(self, copy);
}

}  // namespace

void copy_into(const Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return;
  check(is_broadcastable_to(source.sizes(), self.sizes()),
        "copy_: expected a source that expands to ", self, ", got ", source);
  if (self.numel() == 0 || self.is_meta()) return;
  if (is_private(self) || is_private(source)) {
    make_writable(self);
    return copy_across(self, source);
  }
  check(self.is_cpu() && source.is_cpu(), "copy_: expected CPU tensors, got ", self.device(),
        " and ", source.device());
  make_writable(self);
  copy_values(self, source);
  // What is pending in only one of the two is done to the memory just written.
  const DispatchKeySet flips = (self.keys() ^ source.keys()) & kLazyKeys;
  if (!flips.empty()) flip(self, flips);
}

void copy_strided(const Tensor& self, const void* source, IntArrayRef strides) {
  if (self.numel() == 0) return;
  const auto bytes = static_cast<int64_t>(element_size(self.dtype()));
  StridedLoop nest;
  nest.set_sizes(self.sizes());
  nest.add(self);
  nest.add(const_cast<void*>(source), self.sizes(), strides, bytes);
  const CastLoop move = cast_loop(self.dtype(), self.dtype());
  copy_nest(nest, move, bytes, bytes, move);
}

void fill_with(const Tensor& self, const Scalar& value) {
  alignas(16) char element[16] = {};
  const int64_t bytes = static_cast<int64_t>(element_size(self.dtype()));
  const bool zero_pairs = self.dtype() == ScalarType::Float4E2M1FNx2 && value.is_zero();
  if (!zero_pairs) {
    dispatch_stored(self.dtype(), "fill_", [&]<typename T>() {
      const T converted = value.to<T>();
      std::memcpy(element, &converted, sizeof converted);
    });
  }
  if (self.numel() == 0 || self.is_meta()) return;
  if (is_private(self)) return fill_on_device(self, element);
  check(self.is_cpu(), "fill_: expected a CPU tensor, got ", self.device());
  if (self.impl()->is_non_overlapping_and_dense()) {
    char* data = static_cast<char*>(self.data());
    parallel_for(0, self.numel(), bytes / 4 + 1, [&](int64_t begin, int64_t end) {
      splat(element, bytes, end - begin, data + begin * bytes);
    });
    return;
  }
  StridedLoop nest;
  nest.set_sizes(self.sizes());
  nest.add(self);
  nest.add(element, {}, {}, bytes);
  const CastLoop move = cast_loop(self.dtype(), self.dtype());
  copy_nest(nest, move, bytes, bytes, move);
}

Tensor contiguous_tensor(const Tensor& self) {
  if (self.is_contiguous()) return self;
  Tensor copy = empty_tensor(self.sizes(), self.dtype(), self.device());
  copy_into(copy, self);
  return copy;
}

Tensor contiguous_tensor(const Tensor& self, MemoryFormat format) {
  if (format == MemoryFormat::Preserve || self.is_contiguous(format)) return self;
  if (format == MemoryFormat::Contiguous) return contiguous_tensor(self);
  Tensor copy = empty_strided_tensor(self.sizes(), channels_last_strides(self.sizes()),
                                     self.dtype(), self.device());
  copy_into(copy, self);
  return copy;
}

Tensor cast_tensor(const Tensor& self, ScalarType dtype) {
  if (self.dtype() == dtype) return self;
  Tensor copy = empty_like_tensor(self, dtype);
  copy_into(copy, self);
  return copy;
}

Scalar item_of(const Tensor& self) {
  check(self.numel() == 1, NotOneElement{self.numel()});
  check(!self.device().is_meta(),
        "item: expected a tensor with data, got a meta tensor (Tensor.item() cannot be called on "
        "meta tensors)");
  if (is_private(self)) return item_of(host_copy(self));
  check(self.is_cpu(), "item: expected a CPU tensor, got ", self.device());
  const Scalar stored = Scalar::load(self.dtype(), self.data());
  const complex<double> z = stored.to_complex();
  const Scalar value = self.is_conj() ? Scalar(complex<double>(z.re, -z.im)) : stored;
  return self.is_neg() ? -value : value;
}

}  // namespace flambeau
