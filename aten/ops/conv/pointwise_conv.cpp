// Convolution with a kernel of one element: a matrix product of the weights with each sample, where
// it lies. Other ways rearrange the samples first, which costs more than the product.
#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/conv/convolution.h"
#include "aten/ops/matmul/gemm.h"

namespace flambeau::conv::pointwise {
namespace {

// Measured on two cores with AVX-512: below, oneDNN's blocked layouts win.
constexpr int64_t kLeastPlane = 64;
constexpr int64_t kLeastPlaneForWeight = 512;

int64_t plane_of(const Problem& p) {
  int64_t plane = 1;
  for (const int64_t n : p.in) plane *= n;
  return plane;
}

bool applies(const Problem& p, int64_t least) {
  for (size_t d = 0; d < p.in.size(); ++d) {
    if (p.kernel[d] != 1 || p.stride[d] != 1 || p.padding[d] != 0) return false;
  }
  return !p.channels_last && p.groups == 1 && p.batch > 0 && p.in_channels > 0 &&
         plane_of(p) >= least;
}

// Whether products can be added to an output without rounding more than one sum would.
bool accumulates(ScalarType dtype) {
  return compute_type(dtype) == dtype && (is_floating_type(dtype) || is_complex_type(dtype));
}

gemm::Matrix row_major(const Tensor& t, int64_t rows, int64_t cols) {
  return {t.data(), rows, cols, cols, 1};
}

// Every plane of `output` filled with its channel's bias.
void spread_bias(const Problem& p, const Tensor& bias, const Tensor& output) {
  const int64_t plane = plane_of(p);
  dispatch_floating_complex(p.dtype, "convolution", [&]<typename T>() {
    parallel_for(0, p.batch * p.out_channels, plane, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T value = bias.data_as<T>()[row % p.out_channels];
        T* to = output.data_as<T>() + row * plane;
        for (int64_t i = 0; i < plane; ++i) to[i] = value;
      }
    });
  });
}

}  // namespace

bool forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output) {
  if (!applies(p, kLeastPlane) || (bias.defined() && !accumulates(p.dtype))) return false;
  if (bias.defined()) spread_bias(p, bias, output);
  const int64_t plane = plane_of(p);
  gemm::multiply_batched(p.dtype, p.batch, row_major(weight, p.out_channels, p.in_channels), 0,
                         row_major(input, p.in_channels, plane), p.in_channels * plane,
                         output.data(), p.out_channels * plane, plane, bias.defined());
  return true;
}

bool backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input) {
  if (!applies(p, kLeastPlane) || p.out_channels == 0) return false;
  const int64_t plane = plane_of(p);
  gemm::multiply_batched(p.dtype, p.batch,
                         gemm::transposed(row_major(weight, p.out_channels, p.in_channels)), 0,
                         row_major(grad_output, p.out_channels, plane), p.out_channels * plane,
                         grad_input.data(), p.in_channels * plane, plane, false);
  return true;
}

bool backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight) {
  if (!applies(p, kLeastPlaneForWeight) || !accumulates(p.dtype)) return false;
  const int64_t plane = plane_of(p);
  const auto width = static_cast<int64_t>(element_size(p.dtype));
  gemm::Matrix g = row_major(grad_output, p.out_channels, plane),
               x = row_major(input, p.in_channels, plane);
  for (int64_t n = 0; n < p.batch; ++n) {
    gemm::multiply(p.dtype, g, gemm::transposed(x), grad_weight.data(), p.in_channels, n > 0);
    g.data = static_cast<const char*>(g.data) + p.out_channels * plane * width;
    x.data = static_cast<const char*>(x.data) + p.in_channels * plane * width;
  }
  return true;
}

}  // namespace flambeau::conv::pointwise
