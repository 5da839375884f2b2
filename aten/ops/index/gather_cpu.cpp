// gather on CPU. Negative indices are out of bounds.
// Formula: result[i][j] = self[index[i][j]][j] for dim 0.
// Accumulates in: none: values are moved.
// NaN, infinity: both are moved as any value.
// Error: none: exact in every dtype.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/strided.h"
#include "aten/ops/index/pick.h"
#include "torchgen_out/aten/index_kernels.h"

namespace flambeau::ops {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kCacheBytes = 1 << 19;

// Along one row of a tile: where the elements lie and what a position is worth, in bytes.
struct Row {
  int64_t count;
  char* to;
  const char* positions;
  const char* from;
};

struct Steps {
  int64_t to, positions, from;  // from one element of a row to the next
  int64_t size, along;          // of the gathered dimension: positions, and bytes between them
  int64_t dim;
};

template <typename T>
void gather_row(const Row& row, const Steps& steps) {
  const int64_t along = steps.along, size = steps.size;
  for (int64_t j = 0; j < row.count; ++j) {
    const int64_t at = *reinterpret_cast<const int64_t*>(row.positions + j * steps.positions);
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(size)) [[unlikely]] {
      fail(ErrorKind::Runtime, OutOfBounds{at, steps.dim, size});
    }
    *reinterpret_cast<T*>(row.to + j * steps.to) =
        *reinterpret_cast<const T*>(row.from + j * steps.from + at * along);
  }
}

// A row along the gathered dimension, whose result and positions are gapless.
template <typename T>
void pick_row(const Row& row, const Steps& steps) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T)), kPosition = int64_t{sizeof(int64_t)};
  const int64_t done = indexing::pick(reinterpret_cast<const T*>(row.from), steps.along / kItem,
                                      steps.size, reinterpret_cast<const int64_t*>(row.positions),
                                      row.count, reinterpret_cast<T*>(row.to));
  if (done == row.count) return;
  // Names the index that stopped it.
  gather_row<T>(
      {row.count - done, row.to + done * kItem, row.positions + done * kPosition, row.from}, steps);
}

// Arrays: the result, the index, and the start of each fiber of `self`.
StridedLoop nest_of(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& result) {
  StridedLoop nest;
  nest.set_sizes(result.sizes());
  nest.add(result);
  nest.add(index);
  DimVector strides(self.strides());
  if (strides.empty()) strides.resize(result.sizes().size(), 0);
  if (!result.sizes().empty()) strides[static_cast<size_t>(dim)] = 0;
  if (result.sizes().empty()) strides.clear();
  nest.add(self.data(), result.sizes(), strides, static_cast<int64_t>(element_size(self.dtype())));
  nest.sort();
  nest.coalesce();
  return nest;
}

}  // namespace

void gather_cpu(const Tensor& self, int64_t dim, const Tensor& index, bool, Tensor& result) {
  if (result.numel() == 0) return;
  dim = wrap_dim(dim, self.dim());
  const Tensor positions = cast_tensor(index, ScalarType::Int64);
  const StridedLoop nest = nest_of(self, dim, positions, result);
  const auto item = static_cast<int64_t>(element_size(self.dtype()));
  const Steps steps{nest.strides[0][0],
                    nest.strides[1][0],
                    nest.strides[2][0],
                    self.dim() ? self.size(dim) : 1,
                    self.dim() ? self.stride(dim) * item : 0,
                    dim};
  TileShape shape = buffered_tile_shape(nest);
  if (nest.ndim > 1 && steps.from == item && steps.along > item) {
    // Columns of lines that stay in the second-level cache while all rows pick from them.
    const int64_t lines =
        std::max<int64_t>(1, kCacheBytes / (std::max<int64_t>(1, steps.size) * kLineBytes));
    shape.columns = std::min(nest.sizes[0], lines * kLineBytes / item);
    shape.rows = std::min(nest.sizes[1], kBlock);
  }
  const Tiles tiles(nest, shape.columns, shape.rows);
  const bool picks = steps.to == item && steps.positions == 8 && steps.from == 0;
  dispatch_by_size(element_size(self.dtype()), "gather", [&]<typename T>() {
    const auto run = picks ? pick_row<T> : gather_row<T>;
    parallel_for(0, tiles.count(), shape.columns * shape.rows * 3, [&](int64_t begin, int64_t end) {
      tiles.visit(begin, end, [&](const Tile& tile) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          const auto row = [&](int a) {
            return tile.data[a] + (nest.ndim > 1 ? r * nest.strides[a][1] : 0);
          };
          run({tile.columns, row(0), row(1), row(2)}, steps);
        }
      });
    });
  });
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void gather(const Tensor& self, int64_t dim, const Tensor& index, OutSpec* out) {
  const int64_t along = wrap_dim(dim, self.dim());
  if (index.numel() > 0) {
    check(index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32,
          WrongIndexDtype{"gather()", "int64 or int32", index.dtype()});
    check(std::max<int64_t>(self.dim(), 1) == std::max<int64_t>(index.dim(), 1),
          "gather(): expected index and input of one number of dimensions, got ", index, " and ",
          self);
    for (int64_t d = 0; d < std::min(self.dim(), index.dim()); ++d) {
      check(d == along || index.size(d) <= self.size(d),
            "gather(): expected an index that fits into self in all dimensions but ", along,
            ", got ", index, " and ", self);
    }
  }
  sized(self, index.sizes(), out);
}

}  // namespace flambeau::shape
