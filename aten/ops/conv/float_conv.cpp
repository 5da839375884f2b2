// Convolution of half types in float32: groups of samples are converted, convolved and rounded, so
// that temporaries stay small however large the batch is. The accumulate type is float32, that of
// the weight's gradient over the whole batch too. Error bound, tested: one rounding of the half
// type plus what float32 has.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/view.h"
#include "aten/ops/conv/convolution.h"

namespace flambeau::conv::in_float {
namespace {

// Elements of a group's input and output together: 16 MB of float32.
constexpr int64_t kGroup = int64_t{1} << 22;

int64_t samples_per_group(const Problem& p, const Tensor& a, const Tensor& b) {
  const int64_t batch = std::max<int64_t>(p.batch, 1);
  const int64_t sample = std::max<int64_t>((a.numel() + b.numel()) / batch, 1);
  return std::clamp<int64_t>(kGroup / sample, 1, batch);
}

Problem in_float32(Problem p, int64_t samples) {
  p.dtype = ScalarType::Float32;
  p.batch = samples;
  return p;
}

// Samples are outermost in memory in every format.
Tensor samples_of(const Tensor& t, int64_t first, int64_t count) {
  DimVector sizes(t.sizes());
  sizes[0] = count;
  return plain_view(t, {sizes, t.strides(), t.storage_offset() + first * t.stride(0), t.dtype()});
}

Tensor float_copy(const Tensor& t) {
  const Tensor copy = empty_strided_tensor(t.sizes(), t.strides(), ScalarType::Float32, t.device());
  copy_into(copy, t);
  return copy;
}
// Uninitialised, laid out as `t`.
Tensor float_like(const Tensor& t) {
  return empty_strided_tensor(t.sizes(), t.strides(), ScalarType::Float32, t.device());
}

// body(problem of the group, first sample, samples)
template <typename Body>
void each_group(const Problem& p, const Tensor& a, const Tensor& b, const Body& body) {
  const int64_t step = samples_per_group(p, a, b);
  for (int64_t first = 0; first < p.batch; first += step) {
    const int64_t count = std::min(step, p.batch - first);
    body(in_float32(p, count), first, count);
  }
}

}  // namespace

void forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output) {
  const Tensor w = float_copy(weight), b = bias.defined() ? float_copy(bias) : bias;
  each_group(p, input, output, [&](const Problem& group, int64_t first, int64_t count) {
    const Tensor part = samples_of(output, first, count), out = float_like(part);
    conv::forward(group, float_copy(samples_of(input, first, count)), w, b, out);
    copy_into(part, out);
  });
}

void backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input) {
  const Tensor w = float_copy(weight);
  each_group(p, grad_output, grad_input, [&](const Problem& group, int64_t first, int64_t count) {
    const Tensor part = samples_of(grad_input, first, count), out = float_like(part);
    conv::backward_input(group, float_copy(samples_of(grad_output, first, count)), w, out);
    copy_into(part, out);
  });
}

void backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight) {
  const Tensor sum = float_like(grad_weight), part = float_like(grad_weight);
  fill_with(sum, Scalar(0));
  each_group(p, grad_output, input, [&](const Problem& group, int64_t first, int64_t count) {
    conv::backward_weight(group, float_copy(samples_of(grad_output, first, count)),
                          float_copy(samples_of(input, first, count)), part);
    float* to = sum.data_as<float>();
    const float* from = part.data_as<float>();
    for (int64_t i = 0; i < sum.numel(); ++i) to[i] += from[i];
  });
  copy_into(grad_weight, sum);
}

}  // namespace flambeau::conv::in_float
