// Dot product of complex vectors on CPU, the first conjugated, by OpenBLAS.
// Formula: result = sum_i conj(self[i]) * other[i].
// Accumulates in: the dtype, of 2^20 elements at a time.
// NaN, infinity: both follow IEEE arithmetic; an empty sum is 0.
// Error: that of matmul_cpu.cpp: k * eps * sum |a||b|.
// Source: by definition.
#include <cblas.h>

#include <limits>
#include <optional>
#include <type_traits>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "c10/core/interrupt.h"
#include "torchgen_out/aten/matmul_kernels.h"

namespace flambeau::ops {
namespace {

// A vector that the library takes: it reads those with negative steps backwards, and none that stay
// in place (expand).
Tensor with_library_step(const Tensor& vector) {
  const int64_t step = vector.stride(0);
  return step >= 1 && step <= std::numeric_limits<blasint>::max() ? vector
                                                                  : contiguous_tensor(vector);
}

template <typename T>
T conjugate_dot(int64_t n, const T* a, int64_t step_a, const T* b, int64_t step_b) {
  T sum;
  const auto count = static_cast<blasint>(n), first = static_cast<blasint>(step_a),
             second = static_cast<blasint>(step_b);
  if constexpr (std::is_same_v<T, complex<float>>) {
    scipy_cblas_cdotc_sub(count, a, first, b, second, &sum);
  } else {
    scipy_cblas_zdotc_sub(count, a, first, b, second, &sum);
  }
  return sum;
}

}  // namespace

void conjugate_dot_cpu(const Tensor& self, const Tensor& other, Tensor& out) {
  const Tensor left = with_library_step(self), right = with_library_step(other);
  std::optional<SerialBlas> serial;
  if (in_parallel_region()) serial.emplace();
  dispatch_types<ScalarType::Complex64, ScalarType::Complex128>(
      self.dtype(), "vdot", [&]<typename T>() {
        const T *a = left.data_as<T>(), *b = right.data_as<T>();
        const int64_t step_a = left.stride(0), step_b = right.stride(0);
        T sum(0);
        in_pieces(self.size(0), [&](int64_t begin, int64_t end) {
          sum = sum +
                conjugate_dot(end - begin, a + begin * step_a, step_a, b + begin * step_b, step_b);
        });
        *out.data_as<T>() = sum;
      });
}

}  // namespace flambeau::ops
