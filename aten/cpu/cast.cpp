#include "aten/cpu/cast.h"

#include <cstring>

#include "aten/core/loop_table.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(CastTable, cast)

namespace {

const CastTable& cast_table() {
  static const LoopTable<CastTable> table = FLAMBEAU_LOOP_TABLE(cast);
  return table[0];
}

}  // namespace

CastLoop cast_loop(ScalarType from, ScalarType to) {
  const CastLoop loop = cast_table().loops[index_of(from) * kNumScalarTypes + index_of(to)];
  if (!loop) fail_dtype("copy_", is_byte_floating_type(from) ? from : to);
  return loop;
}

void splat(const char* value, int64_t bytes, int64_t n, char* destination) {
  cast_table().splat(value, bytes, n, destination);
}

void gather(const TileSide& from, int64_t columns, int64_t rows, char* buffer,
            int64_t buffer_bytes) {
  const bool by_column =
      rows > 1 && from.row_stride != 0 && std::abs(from.row_stride) < std::abs(from.column_stride);
  if (by_column) {
    for (int64_t c = 0; c < columns; ++c) {
      from.cast(rows, from.data + c * from.column_stride, from.row_stride,
                buffer + c * buffer_bytes, columns * buffer_bytes);
    }
    return;
  }
  const int64_t row_bytes = columns * buffer_bytes;
  for (int64_t r = 0; r < rows; ++r) {
    char* row = buffer + r * row_bytes;
    if (r > 0 && from.row_stride == 0) {
      std::memcpy(row, buffer, static_cast<size_t>(row_bytes));
    } else if (from.column_stride == 0 && columns > 1) {
      from.cast(1, from.data + r * from.row_stride, 0, row, buffer_bytes);
      splat(row, buffer_bytes, columns, row);
    } else {
      from.cast(columns, from.data + r * from.row_stride, from.column_stride, row, buffer_bytes);
    }
  }
}

void scatter(const char* buffer, int64_t buffer_bytes, int64_t columns, int64_t rows,
             const TileSide& to) {
  const bool by_column = rows > 1 && std::abs(to.row_stride) < std::abs(to.column_stride);
  if (by_column) {
    for (int64_t c = 0; c < columns; ++c) {
      to.cast(rows, buffer + c * buffer_bytes, columns * buffer_bytes,
              to.data + c * to.column_stride, to.row_stride);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    to.cast(columns, buffer + r * columns * buffer_bytes, buffer_bytes, to.data + r * to.row_stride,
            to.column_stride);
  }
}

}  // namespace flambeau
