#include "c10/core/dispatch_key.h"

#include "c10/core/thread_state.h"

namespace flambeau::c10 {

thread_local constinit ThreadState thread_state;

const char* name_of(DispatchKey k) {
  static constexpr const char* kNames[kNumDispatchKeys] = {
      "CPU",           "CUDA",      "Meta",     "PrivateUse1",   "PrivateUse2", "PrivateUse3",
      "BackendMode",   "Conjugate", "Negative", "FuncTorchBack", "Autograd",    "Autocast",
      "Functionalize", "FuncTorch", "Tracing",  "Python"};
  return kNames[static_cast<int>(k)];
}

}  // namespace flambeau::c10
