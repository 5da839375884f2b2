// Convolution on CPU (cross-correlation). Where the input or the weight is channels last,
// everything is done in that format.
// Formula:
//   out[n, o, x] = bias[o] + sum over c, k of input[n, c, x * stride - padding + k * dilation] *
//   weight[o, c, k].
//   A transposed convolution is the gradient of one with respect to its input, and computed as
//   that.
// Accumulates in: the dtype; float32 for half types (float_conv.cpp).
// NaN, infinity: both follow IEEE arithmetic and reach every window that holds them.
// Error: 2e-5 relative in float32, 1e-11 in float64 (test/ops/test_values.py).
// Source: by definition.
#include <algorithm>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/sum_row.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/conv/convolution.h"
#include "torchgen_out/aten/conv_kernels.h"

namespace flambeau::ops {
namespace {

void add_bias(const Tensor& bias, const Tensor& out) {
  const int64_t channels = out.size(1);
  const int64_t plane = channels && out.size(0) ? out.numel() / (channels * out.size(0)) : 0;
  const auto add = [&]<typename T>() {
    T* element = out.data_as<T>();
    const T* shifts = bias.data_as<T>();
    if (is_channels_last_ordered(out)) {
      for (int64_t row = 0; row < out.size(0) * plane; ++row, element += channels) {
        for (int64_t c = 0; c < channels; ++c) element[c] = wrapping_sum(element[c], shifts[c]);
      }
      return;
    }
    for (int64_t row = 0; row < out.size(0) * channels; ++row) {
      const T shift = shifts[row % channels];
      for (int64_t i = 0; i < plane; ++i, ++element) *element = wrapping_sum(*element, shift);
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
    if (is_channels_last_ordered(grad)) {
      std::vector<Acc> sums(static_cast<size_t>(channels), Acc(0));
      const T* row = grad.data_as<T>();
      for (int64_t i = 0; i < grad.size(0) * plane; ++i, row += channels) {
        for (int64_t c = 0; c < channels; ++c) sums[static_cast<size_t>(c)] += Acc(row[c]);
      }
      std::transform(sums.begin(), sums.end(), grad_bias.data_as<T>(),
                     [](Acc sum) { return static_cast<T>(sum); });
      return;
    }
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

// The operands of one convolution, dense and in the format that it is done in.
struct Operands {
  Tensor input, weight;
  Operands(const Tensor& x, const Tensor& w)
      : input(x),
        weight(is_channels_last_ordered(w) ? dense_in_format_of(w, w) : contiguous_tensor(w)) {
    input = arranged(x);
  }
  Tensor arranged(const Tensor& t) const {
    const Tensor& model = is_channels_last_ordered(weight) ? weight : input;
    return dense_in_format_of(t, model);
  }
};

}  // namespace

void convolution_cpu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                     IntArrayRef, int64_t groups, Tensor& out) {
  if (out.numel() == 0) return;
  const Operands operands(input, weight);
  const Tensor &x = operands.input, &w = operands.weight;
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
  const Operands operands(input, weight);
  const Tensor &x = operands.input, &w = operands.weight;
  const Tensor g = operands.arranged(grad_output);
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
  if (wanted[1]) {
    conv::Problem to_weight = p;
    to_weight.weight_channels_last = is_channels_last_ordered(grad_weight);
    conv::backward_weight(to_weight, transposed ? x : g, transposed ? g : x, grad_weight);
  }
  if (wanted[2]) sum_bias(g, grad_bias);
}

}  // namespace flambeau::ops
