#pragma once
// Batching rules: one call on tensors with a hidden dimension becomes calls on whole tensors.
#include <string>

#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/stack.h"
#include "aten/transforms/layers.h"

namespace flambeau::transforms {

// Runs `op` under the innermost layer, a Vmap layer. Replaces the arguments by the results, batched
// where need be. What has neither a rule nor parts runs once per entry, with a warning at its first
// call.
void run_batched(const OperatorEntry& op, Stack& stack);

// Called once per operator that runs once per entry; set by the binding.
extern void (*warn_of_loop)(const std::string& message);
// Sets whether it is called. Returns the previous setting.
bool set_loop_warnings(bool enabled);

}  // namespace flambeau::transforms
