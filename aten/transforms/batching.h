#pragma once
// Batching rules: one call on tensors with a hidden dimension becomes calls on whole tensors.
#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/stack.h"
#include "aten/transforms/layers.h"

namespace flambeau::transforms {

// Runs `op` under the innermost layer, a Vmap layer. Some tensor on the stack is batched at its
// level, or `op` draws random numbers. Replaces the arguments by the results, batched where need
// be. What has neither a rule nor parts runs once per entry, with a warning at its first call.
void run_batched(const OperatorEntry& op, Stack& stack);

}  // namespace flambeau::transforms
