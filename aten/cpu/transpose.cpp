#include "aten/cpu/transpose.h"

#include <bit>

#include "aten/core/loop_types.h"
#include "c10/core/isa.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(TransposeLoop, transpose)

TransposeLoop transpose_loop(int64_t element_bytes) {
  static constexpr const TransposeLoop* kTables[kNumIsas] = FLAMBEAU_ALL_LOOPS(transpose);
  return kTables[cpu_isa()][std::countr_zero(static_cast<uint64_t>(element_bytes))];
}

}  // namespace flambeau
