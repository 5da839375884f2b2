// Slopes of rrelu in training on CPU, number for number those of PyTorch after the same seed: one
// double in [lower, upper) per element <= 0, in row-major order, and no draw for the others.
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
