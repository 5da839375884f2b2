// Shapes of normalised tensors, of their statistics and of their gradients.
#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/norm/channels.h"
#include "torchgen_out/aten/norm_kernels.h"

namespace flambeau::shape {

void normalize_over(const Tensor& input, IntArrayRef dim, OutSpec* out) {
  const uint64_t mask = dim_mask(dim, input.dim());
  out[0] = {DimVector(input.sizes()), {}, input.dtype(), input.device()};
  if (norm::is_per_channel(input, mask)) keep_format(input, out);
  out[1] = {reduced_sizes(input.sizes(), mask, true), {}, input.dtype(), input.device()};
  out[2] = out[1];
}

void normalize_affine(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      IntArrayRef dim, OutSpec* out) {
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    check(broadcast_sizes(t->sizes(), input.sizes()) == input.sizes(),
          "_normalize_affine: expected weights that broadcast to ", input.sizes(), ", got ",
          t->sizes());
  }
  if (weight.defined() && bias.defined()) {
    check(weight.sizes() == bias.sizes(),
          "_normalize_affine: expected weight and bias of one shape, got ", weight.sizes(), " and ",
          bias.sizes());
  }
  normalize_over(input, dim, out);
}

void normalize_rms(const Tensor& input, const Tensor& weight, IntArrayRef dim, OutSpec* out) {
  OutSpec all[3];
  normalize_affine(input, weight, Tensor(), dim, all);
  out[0] = all[0], out[1] = all[2];
}

void normalize_rms_backward(const Tensor& grad_output, const Tensor& input,
                            const Tensor& mean_square, const Tensor& weight, IntArrayRef dim,
                            ArrayRef<bool> wanted, OutSpec* out) {
  OutSpec all[3];
  const bool both[] = {wanted[0], wanted[1], false};
  normalize_affine_backward(grad_output, input, mean_square, mean_square, weight, Tensor(), dim,
                            ArrayRef<bool>(both, 3), all);
  out[0] = all[0], out[1] = all[1];
}

void normalize_affine_backward(const Tensor& grad_output, const Tensor& input, const Tensor& center,
                               const Tensor& variance, const Tensor& weight, const Tensor& bias,
                               IntArrayRef dim, ArrayRef<bool> wanted, OutSpec* out) {
  check_grad_output("_normalize_affine_gradients", grad_output, input.sizes());
  OutSpec forward[3];
  normalize_affine(input, weight, bias, dim, forward);
  for (const Tensor* t : {&center, &variance}) {
    check(t->sizes() == forward[1].sizes.ref(),
          "_normalize_affine_gradients: expected statistics of shape ", forward[1].sizes, ", got ",
          t->sizes());
  }
  out[0] = forward[0];
  out[0].defined = wanted[0];
  const Tensor* const affine[] = {&weight, &bias};
  for (size_t i = 0; i < 2; ++i) {
    const Tensor& t = *affine[i];
    out[i + 1] = {{}, {}, input.dtype(), input.device(), t.defined() && wanted[i + 1]};
    if (t.defined()) out[i + 1].sizes = DimVector(t.sizes()), out[i + 1].dtype = t.dtype();
  }
}

void normalize_over_backward(const Tensor& grad_normal, const Tensor& grad_variance,
                             const Tensor& normal, const Tensor& variance, IntArrayRef dim,
                             OutSpec* out) {
  check_grad_output("_normalize_over_backward", grad_normal, normal.sizes());
  const DimVector kept = reduced_sizes(normal.sizes(), dim_mask(dim, normal.dim()), true);
  check(variance.sizes() == kept.ref(), "_normalize_over_backward: expected variance of shape ",
        kept, ", got ", variance);
  if (grad_variance.defined()) check_grad_output("_normalize_over_backward", grad_variance, kept);
  like(normal, out);
  if (norm::is_per_channel(normal, dim_mask(dim, normal.dim()))) keep_format(normal, out);
}

}  // namespace flambeau::shape
