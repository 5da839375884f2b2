#pragma once
// Between unboxed kernels and stacks, for one kernel signature: declarations. The definitions are
// in boxing.h; torchgen_out/aten/boxing_<n>.cpp instantiates them once for each signature.
#include "aten/dispatch/operator_entry.h"

namespace flambeau::boxing {

// The operator whose adapter was called last; its signature's `boxed` reads this before anything
// else. initial-exec keeps an adapter to a store and a jump.
extern thread_local constinit const OperatorEntry* adapted
    __attribute__((tls_model("initial-exec")));

template <typename Kernel>
struct Signature;
template <typename R, typename... Args>
struct Signature<R (*)(DispatchKeySet, Args...)> {
  using Kernel = R (*)(DispatchKeySet, Args...);

  // An UnboxingCaller.
  static void call(void* kernel, DispatchKeySet keys, Stack& stack);
  // Boxes the arguments and runs the boxed kernel of `adapted`.
  static R boxed(DispatchKeySet keys, Args... args);
  // The unboxed face of an operator's boxed kernels.
  template <typename Op>
  static R adapter(DispatchKeySet keys, Args... args) {
    adapted = &Op::entry;
    return boxed(keys, static_cast<Args&&>(args)...);
  }
};

}  // namespace flambeau::boxing
