// Slopes of rrelu in training on CPU.
// Formula: out = u (upper - lower) + lower with u uniform in [0, 1) where self <= 0, else 1.
// Accumulates in: double, rounded once to the dtype.
// NaN, infinity: a NaN element is not <= 0 and gives slope 1; -inf draws, +inf gives 1.
// Error: none: number for number PyTorch's after the same seed.
// Source: by definition; one double is drawn per element <= 0, in row-major order, and none for the
// others.
#include "aten/core/factory.h"
#include "aten/cpu/generator.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/activation_kernels.h"

namespace flambeau::ops {

void rrelu_noise_cpu(const Tensor& self, const Scalar& lower, const Scalar& upper,
                     GeneratorImpl* generator, Tensor& out) {
  const double low = lower.to_double(), high = upper.to_double();
  check(low <= high, "rrelu: expected lower <= upper, got lower=", low, " and upper=", high);
  const Tensor in = contiguous_tensor(self);
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  dispatch_floating(in.dtype(), "rrelu_with_noise_out_cpu", [&]<typename T>() {
    const T* x = in.data_as<T>();
    T* noise = out.data_as<T>();
    for (int64_t i = 0; i < in.numel(); ++i) {
      const bool draws = static_cast<accumulate_t<T>>(x[i]) <= 0;
      noise[i] = static_cast<T>(draws ? source.uniform_double() * (high - low) + low : 1.0);
    }
  });
}

}  // namespace flambeau::ops
