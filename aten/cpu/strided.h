#pragma once
// A loop nest over several strided arrays at once, and its cutting into L1-sized tiles: what the
// pointwise, reduction and copy drivers share.
#include "aten/core/tensor.h"

namespace flambeau {

inline constexpr int kMaxDims = 64;
inline constexpr int kMaxArrays = 10;

// Dimensions innermost first; strides in bytes.
struct StridedLoop {
  int ndim = 0;
  int arrays = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxArrays][kMaxDims];
  char* data[kMaxArrays];

  // The iteration space, row-major. Must come before the arrays.
  void set_sizes(IntArrayRef row_major);
  // Adds an array that broadcasts to the space (dims aligned at the end).
  void add(const Tensor& t);
  void add(void* base, IntArrayRef sizes, IntArrayRef strides_in_elements, int64_t element_bytes);
  int64_t numel() const;
  // Sorts dimensions by the strides of array 0, then of the others, so that writes are sequential.
  void sort();
  // Joins neighbours that lie gapless in every array; drops dimensions of size 1. Leaves ndim >= 1.
  void coalesce();
  // Whether array `a` steps by `element_bytes` in one run over the whole space.
  bool is_dense(int a, int64_t element_bytes) const {
    return ndim == 1 && (strides[a][0] == element_bytes || sizes[0] == 1);
  }
  bool is_constant(int a) const {
    for (int d = 0; d < ndim; ++d) {
      if (strides[a][d] != 0 && sizes[d] != 1) return false;
    }
    return true;
  }

  void swap_dims(int a, int b);
};

// Walks a nest element by element, first dimension fastest, keeping each array's address.
class Odometer {
 public:
  // Dimensions below `first` are left out.
  explicit Odometer(const StridedLoop& loop, int first = 0);
  void move_to(char* const* bases, int64_t index);
  void step();
  char* const* data() const { return data_; }

 private:
  const StridedLoop& loop_;
  int first_;
  int64_t index_[kMaxDims];
  char* data_[kMaxArrays];
};

// One tile: `rows` x `columns` elements, columns along dimension 0 and rows along dimension 1.
struct Tile {
  int64_t columns;
  int64_t rows;
  char* data[kMaxArrays];
  int64_t count() const { return columns * rows; }
};

// Cuts the nest into tiles of at most `columns` x `rows` and visits a range of them in order.
class Tiles {
 public:
  Tiles(const StridedLoop& loop, int64_t columns, int64_t rows);
  int64_t count() const { return count_; }

  template <typename Visit>
  void visit(int64_t begin, int64_t end, const Visit& body) const {
    for (int64_t i = begin; i < end; ++i) body(at(i));
  }

 private:
  Tile at(int64_t index) const;

  const StridedLoop& loop_;
  int64_t columns_;
  int64_t rows_;
  int64_t column_tiles_;
  int64_t row_tiles_;
  int64_t count_;
};

// Elements in a buffered block: a few buffers of 8-byte elements stay within L1.
inline constexpr int64_t kBlock = 1024;

struct TileShape {
  int64_t columns;
  int64_t rows;
};
// Square-ish where some array runs along dimension 1 (a transpose), else as long as a block allows.
TileShape buffered_tile_shape(const StridedLoop& loop);

}  // namespace flambeau
