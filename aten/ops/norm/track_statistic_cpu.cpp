// Running statistics on CPU.
// Formula: running += momentum * (value - running).
// Accumulates in: the dtype of `running`, accumulated in its wider type for half types.
// NaN, infinity: those of `value` stay in the statistic.
// Error: 2 eps of the larger magnitude, and one rounding for half types.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/norm_kernels.h"

namespace flambeau::ops {

void track_statistic_cpu(const Tensor& running, const Tensor& value, double momentum,
                         Tensor& result) {
  check(running.sizes() == value.sizes(), "expected running statistics of shape ", value.sizes(),
        ", got ", running);
  // Under vmap: one statistic for all entries of a batch cannot take a value from each.
  check(!has_internal_overlap(running),
        "batch norm: expected running statistics whose elements have memory of their own, got "
        "shared elements; under vmap, pass statistics that are batched as the input is");
  copy_into(result, running);
  const Tensor to = contiguous_tensor(cast_tensor(value, running.dtype()));
  dispatch_floating(running.dtype(), "batch_norm", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const auto weight = static_cast<Acc>(momentum);
    T* moved = result.data_as<T>();
    const T* target = to.data_as<T>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      const Acc from = moved[i], gap = static_cast<Acc>(target[i]) - from;
      moved[i] =
          static_cast<T>(weight < Acc(0.5) ? from + weight * gap
                                           : static_cast<Acc>(target[i]) - gap * (Acc(1) - weight));
    }
  });
  Tensor written = running;
  copy_into(written, result);
  running.impl()->bump_version();
}

}  // namespace flambeau::ops
