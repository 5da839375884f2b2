// The places of the elements in each way to choose r of n elements.
// Formula: result[i] = places of the i-th way, in lexicographic order; strictly increasing, or with
// replacement not decreasing.
// Accumulates in: none, places are counted in int64.
// NaN, infinity: none, the kernel sees no values.
// Error: none, the result is exact.
// Source: by definition.
#include <algorithm>

#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::shape {

// The number of ways is known before they are listed, so that what fits no memory is refused.
void combination_places(int64_t n, int64_t r, bool with_replacement, OutSpec* out) {
  check(n >= 0 && r > 0, "combinations: expected n >= 0 and r > 0, got ", n, " and ", r);
  const int64_t choices = with_replacement ? sum_of("combinations", n, r - 1) : n;
  int64_t count = r <= choices ? 1 : 0;
  for (int64_t i = 1; count && i <= std::min(r, choices - r); ++i) {
    count = product_of("combinations", count, choices - i + 1) / i;
  }
  out->sizes = {product_of("combinations", count, r)};
  out->dtype = ScalarType::Int64;
}

}  // namespace flambeau::shape

namespace flambeau::ops {

void combination_places_cpu(int64_t n, int64_t r, bool with_replacement, Tensor& out) {
  const int64_t count = out.numel() / r;
  int64_t* row = out.data_as<int64_t>();
  for (int64_t i = 0; count && i < r; ++i) row[i] = with_replacement ? 0 : i;
  for (int64_t k = 1; k < count; ++k) {
    const int64_t* const last = row;
    row += r;
    int64_t at = r - 1;
    while (last[at] == (with_replacement ? n - 1 : n - r + at)) --at;
    for (int64_t i = 0; i < r; ++i) {
      row[i] = i < at ? last[i] : last[at] + 1 + (with_replacement ? 0 : i - at);
    }
  }
}

}  // namespace flambeau::ops
