// Convolution on CPU (cross-correlation):
//   out[n, o, x] = bias[o] + sum over c, k of input[n, c, x * stride - padding + k * dilation] *
//   weight[o, c, k].
// A transposed convolution is the gradient of one with respect to its input, and computed as that.
#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/sum_row.h"
#include "aten/ops/conv/convolution.h"
#include "torchgen_out/aten/conv_kernels.h"

namespace flambeau::ops {
namespace {

void add_bias(const Tensor& bias, const Tensor& out) {
  const int64_t channels = out.size(1);
  const int64_t plane = channels && out.size(0) ? out.numel() / (channels * out.size(0)) : 0;
  const auto add = [&]<typename T>() {
    T* element = out.data_as<T>();
    for (int64_t row = 0; row < out.size(0) * channels; ++row) {
      const T shift = bias.data_as<T>()[row % channels];
      for (int64_t i = 0; i < plane; ++i, ++element) *element = static_cast<T>(*element + shift);
    }
  };
  if (out.dtype() == ScalarType::Int64) return add.operator()<int64_t>();
  dispatch_floating_complex(out.dtype(), "convolution", add);
}

void sum_bias(const Tensor& grad, const Tensor& grad_bias) {
  const int64_t channels = grad.size(1);
  const int64_t plane = grad.numel() ? grad.numel() / (channels * grad.size(0)) : 0;
  dispatch_floating_complex(grad.dtype(), "convolution_backward", [&]<typename T>() {
    using Acc = std::conditional_t<std::is_same_v<T, float>, double, accumulate_t<T>>;
    parallel_for(0, channels, grad.size(0) * plane, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        Acc sum = Acc(0);
        for (int64_t n = 0; n < grad.size(0); ++n)
          sum += sum_row<Acc>(grad.data_as<T>() + (n * channels + c) * plane, plane);
        grad_bias.data_as<T>()[c] = static_cast<T>(sum);
      }
    });
  });
}

}  // namespace

void convolution_cpu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                     IntArrayRef, int64_t groups, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous_tensor(input), w = contiguous_tensor(weight);
  const Tensor b = bias.defined() ? contiguous_tensor(bias) : bias;
  if (!transposed) {
    conv::forward(conv::problem_of(x, w, out, stride, padding, dilation, groups), x, w, b, out);
    return;
  }
  conv::backward_input(conv::problem_of(out, w, x, stride, padding, dilation, groups), x, w, out);
  if (b.defined()) add_bias(b, out);
}

void convolution_backward_cpu(const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                              bool, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                              bool transposed, IntArrayRef, int64_t groups, ArrayRef<bool> wanted,
                              Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  const Tensor g = contiguous_tensor(grad_output), x = contiguous_tensor(input),
               w = contiguous_tensor(weight);
  if (g.numel() == 0) {
    for (const Tensor* t : {&grad_input, &grad_weight, &grad_bias}) {
      if (t->defined()) fill_with(*t, Scalar(0));
    }
    return;
  }
  const conv::Problem p = transposed ? conv::problem_of(g, w, x, stride, padding, dilation, groups)
                                     : conv::problem_of(x, w, g, stride, padding, dilation, groups);
  if (wanted[0]) {
    if (transposed) {
      conv::forward(p, g, w, Tensor(), grad_input);
    } else {
      conv::backward_input(p, g, w, grad_input);
    }
  }
  if (wanted[1]) conv::backward_weight(p, transposed ? x : g, transposed ? g : x, grad_weight);
  if (wanted[2]) sum_bias(g, grad_bias);
}

}  // namespace flambeau::ops
