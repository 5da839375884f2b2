#include "aten/cpu/transpose.h"

#include <bit>

#include "aten/core/loop_table.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(TransposeLoop, transpose)

TransposeLoop transpose_loop(int64_t element_bytes) {
  static const LoopTable<TransposeLoop> table = FLAMBEAU_LOOP_TABLE(transpose);
  return table[std::countr_zero(static_cast<uint64_t>(element_bytes))];
}

}  // namespace flambeau
