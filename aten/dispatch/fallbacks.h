#pragma once
// Fallbacks of dispatch keys, for code that replaces kernels.
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

// What operators without a kernel for `key` run where no other fallback is set: the core's own.
void set_default_fallback(DispatchKey key, BoxedKernel fallback);
BoxedKernel default_fallback(DispatchKey key);
// What a program has set for operators without a kernel for `key` run; nullptr if it has not.
BoxedKernel boxed_fallback(DispatchKey key);

}  // namespace flambeau
