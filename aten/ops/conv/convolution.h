#pragma once
// The geometry of one convolution, and the ways to compute it.
#include "aten/core/tensor.h"

namespace flambeau::conv {

// Not transposed: input (n, c, in...), weight (o, c/groups, k...), output (n, o, out...).
struct Problem {
  int64_t batch, in_channels, out_channels, groups;
  DimVector in, out, kernel, stride, padding, dilation;  // one entry per spatial dimension
  ScalarType dtype;
  bool channels_last = false;         // how input and output lie in memory; else row-major
  bool weight_channels_last = false;  // the same for the weight
  int64_t dims() const { return static_cast<int64_t>(in.size()); }
};
// One entry per spatial dimension: a list of one entry stands for all.
DimVector per_dimension(IntArrayRef list, int64_t dims);
Problem problem_of(const Tensor& input, const Tensor& weight, const Tensor& output,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups);

// Whether a convolution of these is done on, and yields, channels-last tensors: one of the two in
// that format is enough.
bool is_channels_last(const Tensor& input, const Tensor& weight);

// All tensors lie as the problem says. `bias` may be undefined.
void forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output);
void backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input);
void backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight);

namespace pointwise {
// False where the kernel has more than one element, tensors are not row-major, or another way is
// quicker; then nothing was done.
bool forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output);
bool backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input);
bool backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight);
}  // namespace pointwise

namespace onednn {
// False where oneDNN is not built in or has no primitive for the problem; then nothing was done.
bool forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output);
bool backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input);
bool backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight);
}  // namespace onednn

// Half types in float32: samples are converted in groups, and results rounded once. For problems
// that nothing above takes.
namespace in_float {
void forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output);
void backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input);
void backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight);
}  // namespace in_float

}  // namespace flambeau::conv
