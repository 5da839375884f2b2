#pragma once
// The history of the CPU allocator: what it did in every thread, with Python's stacks.
#include "python/csrc/object.h"

namespace flambeau::python {

// Adds _C._memory_history_*.
void add_memory_history(PyObject* module);

// Around the time that a thread is without the GIL and cannot read its stack, which does not change
// meanwhile. No effect unless a history is kept.
void keep_stack_for_history() noexcept;
void drop_stack_for_history() noexcept;

}  // namespace flambeau::python
