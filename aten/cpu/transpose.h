#pragma once
// Moving elements between two arrays that are contiguous along different dimensions.
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau {

// to[r * to_step + c * size] = from[c * from_step + r * size] for r < rows and c < columns, of
// elements of `size` bytes. The arrays do not overlap; steps in bytes, of any sign.
using TransposeLoop = void (*)(int64_t rows, int64_t columns, const char* from, int64_t from_step,
                               char* to, int64_t to_step);
// The loop for elements of 1, 2, 4, 8 or 16 bytes on this processor.
TransposeLoop transpose_loop(int64_t element_bytes);

// Rows of a tile that begin and end with lines of memory.
inline constexpr int64_t kTransposeLine = 64;

}  // namespace flambeau
