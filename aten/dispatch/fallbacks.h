#pragma once
// Fallbacks of dispatch keys as those who replace kernels see them.
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

// What operators without a kernel for `key` run; nullptr if there is none.
BoxedKernel boxed_fallback(DispatchKey key);

}  // namespace flambeau
