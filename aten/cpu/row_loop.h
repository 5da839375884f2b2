#pragma once
// Runs a generated kernel of a row group (docs/compile.md): it computes reductions along rows, and
// what is computed from them, in one pass over the rows.
#include <cstdint>

#include "c10/core/small_vector.h"

namespace flambeau {

// `rows` rows at equal distances. `data`: the address of each array; `strides`: bytes to the next
// column and row, by array. `scratch`: memory of one thread. `sums`: sums over rows, added to.
using RowKernel = uint32_t (*)(int64_t columns, int64_t rows, char* const* data,
                               const int64_t* strides, const void* slots, char* scratch,
                               double* sums);

struct RowLoop {
  RowKernel kernel;
  int64_t columns;
  SmallVector<int64_t, 4> sizes;     // of the rows, innermost first
  SmallVector<int64_t, 64> strides;  // bytes, by array: to the next column, then along `sizes`
  int64_t scratch;                   // bytes
  int64_t sums;                      // numbers
  int64_t cost;                      // of a row, as parallel_for counts it
};

// Error bits of the loops. `sums` becomes the sums over all rows. Rows are divided evenly among
// threads, whose sums are added in order: results depend on the number of threads alone.
uint32_t run_row_loop(const RowLoop& loop, char* const* data, const void* slots, double* sums);

}  // namespace flambeau
