// Shape rules of the kernels beside the views.
#include <algorithm>
#include <vector>

#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::shape {
namespace {

const Tensor& first_defined(const char* op, TensorList tensors) {
  for (const Tensor& t : tensors) {
    if (t.defined()) return t;
  }
  fail(ErrorKind::Runtime, op, ": expected at least one tensor, got none");
}

}  // namespace

void split_backward(TensorList grad_outputs, IntArrayRef split_sizes, int64_t dim, OutSpec* out) {
  const Tensor& model = first_defined("_split_backward", grad_outputs);
  DimVector sizes(model.sizes());
  int64_t& along = sizes[static_cast<size_t>(wrap_dim(dim, model.dim()))];
  along = 0;
  for (const int64_t s : split_sizes) along = sum_of("_split_backward", along, s);
  check(split_sizes.size() == grad_outputs.size(), "_split_backward: expected as many sizes as ",
        "gradients, got ", split_sizes.size(), " and ", grad_outputs.size());
  sized(model, sizes, out);
  const auto is_row_major = [](const Tensor& t) {
    return t.defined() && !is_channels_last_ordered(t);
  };
  if (std::ranges::none_of(grad_outputs, is_row_major)) keep_format(model, out);
}

void unbind_backward(TensorList grad_outputs, int64_t dim, OutSpec* out) {
  const Tensor& model = first_defined("_unbind_backward", grad_outputs);
  DimVector sizes(model.sizes());
  sizes.insert(static_cast<size_t>(wrap_dim(dim, model.dim() + 1)),
               static_cast<int64_t>(grad_outputs.size()));
  sized(model, sizes, out);
}

void diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2, OutSpec* out) {
  check(self.dim() > 0, "diag_embed: expected a tensor with dimensions, got a 0-dim tensor");
  const int64_t ndim = self.dim() + 1;
  const int64_t a = wrap_dim(dim1, ndim), b = wrap_dim(dim2, ndim);
  check(a != b, "diag_embed: expected different dimensions, got identical ", dim1, " and ", dim2);
  const int64_t distance = offset < 0 ? product_of("diag_embed", -1, offset) : offset;
  const int64_t side = sum_of("diag_embed", self.size(-1), distance);
  DimVector sizes(self.sizes());
  sizes.pop_back();
  sizes.insert(static_cast<size_t>(std::min(a, b)), side);
  sizes.insert(static_cast<size_t>(std::max(a, b)), side);
  sized(self, sizes, out);
}

void matrices(const Tensor& self, OutSpec* out) {
  check(self.dim() >= 2, "triangle: expected at least 2 dimensions, got ", self.dim());
  like(self, out);
}

void complex_of(const Tensor& real, const Tensor& imag, OutSpec* out) {
  sized(real, broadcast_sizes(real.sizes(), imag.sizes()), to_complex_type(real.dtype()), out);
  out->strides = strides_in_order_of(std::vector<Tensor>{real, imag}, out->sizes);
}

void flip(const Tensor& self, IntArrayRef dims, OutSpec* out) {
  dim_mask(dims, self.dim());
  like_preserving(self, out);
}

void roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims, OutSpec* out) {
  check(!shifts.empty(), "roll: expected at least one of `shifts`, got none");
  check(dims.empty() ? shifts.size() == 1 : shifts.size() == dims.size(),
        "roll: expected one shift per dimension, got ", shifts.size(), " shifts for ", dims.size());
  check_index(dims.empty() || self.dim() > 0, MissingDimension{dims.empty() ? 0 : dims[0]});
  for (const int64_t d : dims) wrap_dim(d, self.dim());
  like(self, out);
  if (!dims.empty()) keep_format(self, out);
}

}  // namespace flambeau::shape
