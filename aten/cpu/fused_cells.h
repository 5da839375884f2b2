#pragma once
// The names of the formulas of pointwise loops in torchgen_out/cells/loop_cells.h, which generated
// kernels call. Operators of extensions have none.
#include <span>

#include "aten/core/pointwise_op.h"

namespace flambeau {

struct LoopCell {
  const char* name;
  const PointwiseLoop* loops[kNumIsas];  // those of its descriptor
};

// `cells` must live as long as the process; called once, while the library is loaded.
void register_loop_cells(std::span<const LoopCell> cells);
// The name of the formula of an operator's loops; nullptr if there is none.
const char* cell_of(const PointwiseOp& op);

}  // namespace flambeau
