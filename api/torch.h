#pragma once
// torch/torch.h: the whole of the C++ interface, with modules, optimizers and data.
#include "api/containers.h"
#include "api/data.h"
#include "api/optim.h"
#include "api/recurrent.h"
#include "api/serialize.h"

namespace flambeau::api {

namespace cuda {
// False: libflambeau computes on the CPU.
inline bool is_available() { return false; }
inline size_t device_count() { return 0; }
}  // namespace cuda

}  // namespace flambeau::api
