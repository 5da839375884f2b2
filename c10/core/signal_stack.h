#pragma once

namespace flambeau::c10 {

// Gives the calling thread a stack of its own for signal handlers (sigaltstack), unless it has one.
// Some kernels of oneDNN use the stack pointer as a general register: a handler on the normal stack
// would then write to any address that the register contains. CPython's handlers run on such a
// stack (SA_ONSTACK).
void use_signal_stack() noexcept;

}  // namespace flambeau::c10
