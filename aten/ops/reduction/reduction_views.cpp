// View rules of the reduction family.
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/reduction_kernels.h"

namespace flambeau::view {

// A view of the result of a reduction in which the reduced dimensions are repeated (stride 0).
ViewGeometry unreduce(const Tensor& reduced, IntArrayRef sizes,
                      const std::optional<IntArrayRef>& dim, bool keepdim) {
  const auto ndim = static_cast<int64_t>(sizes.size());
  const bool all = !dim || dim->empty();
  const uint64_t mask = all ? ~uint64_t{0} : dim_mask(*dim, ndim);
  check(reduced.sizes() == reduced_sizes(sizes, mask, keepdim),
        "_unreduce: expected a tensor of shape ", reduced_sizes(sizes, mask, keepdim), ", got ",
        reduced);
  ViewGeometry geometry{DimVector(sizes), DimVector(sizes.size()), reduced.storage_offset()};
  size_t from = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_reduced = (mask >> d) & 1;
    if (!is_reduced) geometry.strides[d] = reduced.strides()[from];
    if (keepdim || !is_reduced) ++from;
  }
  return geometry;
}

}  // namespace flambeau::view
