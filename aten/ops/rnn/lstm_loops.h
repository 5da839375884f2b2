#pragma once
// Loops over the gates of a long short-term memory, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::lstm {

// `rows` contiguous rows of `hidden` cells. A row of gates has 4 * hidden elements: i, f, g, o.
struct Cells {
  int64_t rows, hidden;
};
// `gates` come as sums and become activated gates.
using Step = void (*)(const Cells& of, void* gates, const void* before, void* after, void* output);
// `grad_hidden` and `grad_state` are the gradients of the step's output and cell state;
// `grad_state` becomes that of the state before. `gates` are activated.
using StepBackward = void (*)(const Cells& of, const void* gates, const void* before,
                              const void* after, const void* grad_hidden, void* grad_state,
                              void* grad_gates);

struct Loops {
  Step step;
  StepBackward backward;
};

}  // namespace flambeau::lstm
