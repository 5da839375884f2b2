#include "aten/cpu/strided.h"

#include <algorithm>

#include "aten/cpu/nest_order.h"
#include "aten/cpu/wrapping.h"

namespace flambeau {

void StridedLoop::set_sizes(IntArrayRef row_major) {
  check(row_major.size() <= kMaxDims, "expected at most ", kMaxDims, " dimensions, got ",
        row_major.size());
  ndim = static_cast<int>(row_major.size());
  for (int d = 0; d < ndim; ++d) sizes[d] = row_major[static_cast<size_t>(ndim - 1 - d)];
}

void StridedLoop::add(const Tensor& t) {
  add(t.data(), t.sizes(), t.strides(), static_cast<int64_t>(element_size(t.dtype())));
}

void StridedLoop::add(void* base, IntArrayRef array_sizes, IntArrayRef array_strides,
                      int64_t element_bytes) {
  const int a = arrays++;
  data[a] = static_cast<char*>(base);
  const int own = static_cast<int>(array_sizes.size());
  // Strides of what has no elements may be any numbers.
  const bool empty = std::find(array_sizes.begin(), array_sizes.end(), 0) != array_sizes.end();
  for (int d = 0; d < ndim; ++d) {
    const size_t from = static_cast<size_t>(own - 1 - d);
    const bool steps = !empty && d < own && array_sizes[from] != 1;
    // A reduction over nothing keeps the other dimensions, whose strides are never taken.
    strides[a][d] = steps ? wrapping_product(array_strides[from], element_bytes) : 0;
  }
}

int64_t StridedLoop::numel() const {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  return n;
}

void StridedLoop::swap_dims(int a, int b) {
  std::swap(sizes[a], sizes[b]);
  for (int array = 0; array < arrays; ++array) std::swap(strides[array][a], strides[array][b]);
}

void StridedLoop::sort() { sort_dims(*this); }

void StridedLoop::coalesce() { coalesce_dims(*this); }

Odometer::Odometer(const StridedLoop& loop, int first) : loop_(loop), first_(first) {}

void Odometer::move_to(char* const* bases, int64_t index) {
  for (int a = 0; a < loop_.arrays; ++a) data_[a] = bases[a];
  for (int d = first_; d < loop_.ndim; ++d) {
    index_[d] = index % loop_.sizes[d];
    index /= loop_.sizes[d];
    for (int a = 0; a < loop_.arrays; ++a) data_[a] += index_[d] * loop_.strides[a][d];
  }
}

void Odometer::step() {
  for (int d = first_; d < loop_.ndim; ++d) {
    if (++index_[d] < loop_.sizes[d]) {
      for (int a = 0; a < loop_.arrays; ++a) data_[a] += loop_.strides[a][d];
      return;
    }
    index_[d] = 0;
    for (int a = 0; a < loop_.arrays; ++a) data_[a] -= (loop_.sizes[d] - 1) * loop_.strides[a][d];
  }
}

Tiles::Tiles(const StridedLoop& loop, int64_t columns, int64_t rows)
    : loop_(loop), columns_(columns), rows_(rows) {
  const int64_t height = loop.ndim > 1 ? loop.sizes[1] : 1;
  column_tiles_ = (loop.sizes[0] + columns - 1) / columns;
  row_tiles_ = (height + rows - 1) / rows;
  count_ = column_tiles_ * row_tiles_;
  for (int d = 2; d < loop.ndim; ++d) count_ *= loop.sizes[d];
}

Tile Tiles::at(int64_t index) const {
  const int64_t column = index % column_tiles_ * columns_;
  index /= column_tiles_;
  const int64_t row = index % row_tiles_ * rows_;
  index /= row_tiles_;
  Tile tile;
  tile.columns = std::min(columns_, loop_.sizes[0] - column);
  tile.rows = loop_.ndim > 1 ? std::min(rows_, loop_.sizes[1] - row) : 1;
  for (int a = 0; a < loop_.arrays; ++a) {
    tile.data[a] = loop_.data[a] + column * loop_.strides[a][0];
    if (loop_.ndim > 1) tile.data[a] += row * loop_.strides[a][1];
  }
  for (int d = 2; d < loop_.ndim; ++d) {
    const int64_t at = index % loop_.sizes[d];
    index /= loop_.sizes[d];
    for (int a = 0; a < loop_.arrays; ++a) tile.data[a] += at * loop_.strides[a][d];
  }
  return tile;
}

TileShape buffered_tile_shape(const StridedLoop& loop) {
  const int64_t width = loop.sizes[0];
  if (loop.ndim == 1) return {std::min(width, kBlock), 1};
  bool transposed = false;
  for (int a = 0; a < loop.arrays; ++a) {
    const int64_t x = std::abs(loop.strides[a][0]), y = std::abs(loop.strides[a][1]);
    transposed |= y != 0 && x > y;
  }
  if (transposed) {
    const int64_t columns = std::min<int64_t>(width, 32);
    return {columns, std::min(loop.sizes[1], kBlock / columns)};
  }
  const int64_t columns = std::min(width, kBlock);
  return {columns, columns == width ? std::clamp<int64_t>(kBlock / columns, 1, loop.sizes[1]) : 1};
}

}  // namespace flambeau
