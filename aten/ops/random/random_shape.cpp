// Shape rules of the random operators, with the checks of their arguments.
#include <limits>

#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::shape {

void randperm(int64_t n, std::optional<ScalarType> dtype, std::optional<Device> device,
              OutSpec* out) {
  check(n >= 0, "randperm: expected n of 0 or more, got ", n);
  const ScalarType type = dtype.value_or(ScalarType::Int64);
  if (is_complex_type(type) || type == ScalarType::Bool) fail_dtype("randperm", type);
  if (type == ScalarType::BFloat16) {
    // As in PyTorch: no limit, so that large permutations hold rounded numbers.
  } else if (is_floating_type(type)) {
    const int digits = type == ScalarType::Float16 ? 11 : type == ScalarType::Float32 ? 24 : 53;
    const int64_t most = (int64_t{1} << digits) + 1;
    check(n <= most, "randperm: expected n of at most ", most, ", up to which ",
          pytorch_name_of(type), " counts exactly, got ", n);
  } else {
    const int bits = static_cast<int>(element_size(type)) * 8 - is_signed_type(type);
    check(bits >= 63 || n <= (int64_t{1} << bits), "randperm: expected n of at most 2^", bits,
          " for ", name_of(type), ", got ", n);
  }
  factory(IntArrayRef(n), type, device, out);
}

void binomial(const Tensor& self, const Tensor& prob, OutSpec* out) {
  check(self.is_floating_point() && self.dtype() == prob.dtype(),
        "binomial: expected count and prob of one floating dtype, got ",
        pytorch_name_of(self.dtype()), " and ", pytorch_name_of(prob.dtype()));
  sized(self, broadcast_sizes(self.sizes(), prob.sizes()), out);
}

void standard_gamma_grad(const Tensor& self, const Tensor& output, OutSpec* out) {
  check(self.dtype() == output.dtype(), "_standard_gamma_grad: expected one dtype, got ",
        pytorch_name_of(self.dtype()), " and ", pytorch_name_of(output.dtype()));
  sized(self, broadcast_sizes(self.sizes(), output.sizes()), out);
}

void dirichlet_grad(const Tensor& x, const Tensor& alpha, const Tensor& total, OutSpec* out) {
  check(x.dtype() == alpha.dtype() && x.dtype() == total.dtype(),
        "_dirichlet_grad: expected one dtype, got ", pytorch_name_of(x.dtype()), ", ",
        pytorch_name_of(alpha.dtype()), " and ", pytorch_name_of(total.dtype()));
  const DimVector sizes = broadcast_sizes(x.sizes(), alpha.sizes());
  sized(x, broadcast_sizes(IntArrayRef(sizes), total.sizes()), out);
}

void multinomial(const Tensor& self, int64_t num_samples, bool replacement, OutSpec* out) {
  check(self.dim() == 1 || self.dim() == 2,
        "multinomial: expected weights of 1 or 2 dimensions, got ", self.dim());
  check(self.is_floating_point(), "multinomial: expected weights of a floating dtype, got ",
        pytorch_name_of(self.dtype()));
  check(num_samples > 0, "multinomial: expected num_samples >= 1, got ", num_samples);
  check(replacement || num_samples <= self.size(-1), "multinomial: expected at most ",
        self.size(-1), " samples without replacement, got num_samples=", num_samples);
  DimVector sizes(self.sizes());
  sizes.back() = num_samples;
  sized(self, sizes, ScalarType::Int64, out);
}

}  // namespace flambeau::shape
