// Shape rules of cat and stack. The parts have one dtype: the operators promote before.
#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/join_kernels.h"

namespace flambeau::shape {
namespace {

bool all_channels_last(TensorList tensors) {
  for (const Tensor& t : tensors) {
    if (!is_channels_last_ordered(t)) return false;
  }
  return true;
}

}  // namespace

void cat(TensorList tensors, int64_t dim, OutSpec* out) {
  check_value(!tensors.empty(), NoTensors{"cat"});
  const Tensor& model = tensors[0];
  check(model.dim() > 0,
        "cat: expected tensors with dimensions, got one of 0 dimensions "
        "(zero-dimensional tensor (at position 0) cannot be concatenated)");
  const auto along = static_cast<size_t>(wrap_dim(dim, model.dim()));
  DimVector sizes(model.sizes());
  for (size_t i = 1; i < tensors.size(); ++i) {
    const IntArrayRef other = tensors[i].sizes();
    check(other.size() == sizes.size(), "cat: expected tensors of one number of dimensions, got ",
          tensors);
    for (size_t d = 0; d < sizes.size(); ++d) {
      check(d == along || other[d] == sizes[d],
            "cat: Sizes of tensors must match in dimensions other than ", along, "; expected ",
            sizes[d], " and got ", other[d], " in tensor ", i, " of ", tensors);
    }
    sizes[along] = sum_of("cat", sizes[along], other[along]);
  }
  sized(model, sizes, out);
  if (all_channels_last(tensors)) out->strides = channels_last_strides(sizes);
}

void stack(TensorList tensors, int64_t dim, OutSpec* out) {
  check(!tensors.empty(), NoTensors{"stack"});
  const Tensor& model = tensors[0];
  const auto along = static_cast<size_t>(wrap_dim(dim, model.dim() + 1));
  for (size_t i = 1; i < tensors.size(); ++i) {
    check(tensors[i].sizes() == model.sizes(), "stack expects each tensor to be equal size, got ",
          tensors);
  }
  DimVector sizes(model.sizes());
  const auto count = static_cast<int64_t>(tensors.size());
  if (along < sizes.size() && all_channels_last(tensors)) {  // as cat, with that dimension split
    DimVector joined = sizes;
    joined[along] *= count;
    DimVector strides = channels_last_strides(joined);
    strides.insert(along, strides[along] * sizes[along]);
    out->strides = strides;
  }
  sizes.insert(along, count);
  sized(model, sizes, out);
}

}  // namespace flambeau::shape
