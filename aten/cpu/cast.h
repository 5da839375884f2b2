#pragma once
// Converting runs of elements between dtypes, and moving tiles between strided memory and buffers.
#include "aten/cpu/strided.h"
#include "c10/core/isa.h"

namespace flambeau {

// destination[i] = source[i] converted; strides in bytes. Real numbers become complex with
// imaginary part 0, complex numbers lose it; reals truncate towards zero.
using CastLoop = void (*)(int64_t n, const char* source, int64_t source_stride, char* destination,
                          int64_t destination_stride);
// n copies of the element of `bytes` bytes at `value`, which may be the first of them.
using SplatLoop = void (*)(const char* value, int64_t bytes, int64_t n, char* destination);
// All loops of one instruction set, by from * kNumScalarTypes + to.
struct CastTable {
  CastLoop loops[kNumScalarTypes * kNumScalarTypes];
  SplatLoop splat;
};
// The loop for this processor. NotImplementedError for float4, which only moves.
CastLoop cast_loop(ScalarType from, ScalarType to);

// n copies of the element of `bytes` bytes at `value`, which may be the first of them.
void splat(const char* value, int64_t bytes, int64_t n, char* destination);

// One array of a tile as seen by gather and scatter.
struct TileSide {
  char* data;
  int64_t column_stride;
  int64_t row_stride;
  int64_t element_bytes;
  CastLoop cast;  // to or from the buffer's type
};
// Tile -> buffer, row by row, elements of `buffer_bytes`.
void gather(const TileSide& from, int64_t columns, int64_t rows, char* buffer,
            int64_t buffer_bytes);
// Buffer -> tile.
void scatter(const char* buffer, int64_t buffer_bytes, int64_t columns, int64_t rows,
             const TileSide& to);

}  // namespace flambeau
