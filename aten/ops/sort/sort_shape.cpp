// Shape rules of sorting and selecting, with the checks of their arguments.
#include <limits>

#include "aten/core/messages.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::shape {
namespace {

int64_t size_along(const Tensor& self, int64_t dim) { return self.dim() ? self.size(dim) : 1; }

void check_not_empty(const char* op, const Tensor& self, int64_t dim) {
  const int64_t along = wrap_dim(dim, self.dim());
  check_index(size_along(self, along) > 0, EmptyReduction{op, along});
}

void add_places(OutSpec* out) {
  out[1] = out[0];
  out[1].dtype = ScalarType::Int64;
}

bool is_ordered_number(ScalarType t) { return is_floating_type(t) || is_integral_type(t, false); }

void check_search_options(const Tensor& sequence, bool right, std::optional<std::string_view> side,
                          const Tensor& sorter) {
  if (side) {
    check(*side == "left" || *side == "right",
          "searchsorted(): expected side 'left' or 'right', got ", *side);
    check(!right || *side == "right",
          "searchsorted(): expected side='right' with right=True, got side='left'");
  }
  if (!sorter.defined()) return;
  check(sorter.sizes() == sequence.sizes(), "searchsorted(): expected a sorter of the shape of ",
        sequence, ", got ", sorter);
  check(sorter.dtype() == ScalarType::Int64,
        "searchsorted(): expected a sorter of dtype int64, got ", sorter.dtype());
}

}  // namespace

void sort(const Tensor& self, int64_t dim, OutSpec* out) {
  wrap_dim(dim, self.dim());
  check(!self.is_complex(), "sort: expected real numbers, got ", self.dtype());
  like_preserving(self, out);
  add_places(out);
}

void topk(const Tensor& self, int64_t k, int64_t dim, OutSpec* out) {
  const int64_t along = wrap_dim(dim, self.dim());
  check(k >= 0 && k <= size_along(self, along), "topk: expected k of at most ",
        size_along(self, along), ", got ", k);
  check(is_ordered_number(self.dtype()), "topk: expected real numbers, got ", self.dtype());
  like(self, out);
  if (self.dim()) out->sizes[static_cast<size_t>(along)] = k;
  add_places(out);
}

void kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim, OutSpec* out) {
  check_not_empty("kthvalue", self, dim);
  const int64_t along = wrap_dim(dim, self.dim());
  check(k >= 1 && k <= size_along(self, along), "kthvalue(): expected k from 1 to ",
        size_along(self, along), ", the size of dimension ", along, ", got ", k);
  if (!is_ordered_number(self.dtype())) fail_dtype("kthvalue_cpu", self.dtype());
  reduced(self, dim, keepdim, out);
  add_places(out);
}

void median_dim(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  check_not_empty("median", self, dim);
  if (!is_ordered_number(self.dtype())) fail_dtype("median_out", self.dtype());
  reduced(self, dim, keepdim, out);
  add_places(out);
}

void mode(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  check_not_empty("mode", self, dim);
  if (self.is_complex()) fail_dtype("mode", self.dtype());
  reduced(self, dim, keepdim, out);
  add_places(out);
}

void searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                  std::optional<std::string_view> side, const Tensor& sorter, OutSpec* out) {
  check_search_options(sorted_sequence, right, side, sorter);
  const IntArrayRef sequence = sorted_sequence.sizes(), values = self.sizes();
  check(sequence.size() == 1 || !values.empty(),
        "searchsorted(): expected boundaries of 1 dimension for a single value, got ",
        sequence.size());
  check(!sequence.empty(),
        "searchsorted(): expected boundaries of 1 dimension or more, got a scalar");
  const bool same_leading =
      sequence.size() == values.size() &&
      sequence.slice(0, sequence.size() - 1) == values.slice(0, values.size() - 1);
  check(sequence.size() == 1 || same_leading,
        "searchsorted(): expected boundaries of 1 dimension, or with the values' leading sizes, "
        "got shapes ",
        sequence, " and ", values);
  check(!out_int32 || sequence.back() < std::numeric_limits<int32_t>::max(),
        "searchsorted(): expected fewer than ", std::numeric_limits<int32_t>::max(),
        " boundaries with out_int32, got ", sequence.back());
  like(self, out_int32 ? ScalarType::Int32 : ScalarType::Int64, out);
}

void bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, OutSpec* out) {
  check(boundaries.dim() == 1, "bucketize: expected boundaries of 1 dimension, got ",
        boundaries.dim());
  searchsorted(boundaries, self, out_int32, false, std::nullopt, Tensor(), out);
}

void histc(const Tensor& self, int64_t bins, OutSpec* out) {
  if (!self.is_floating_point()) fail_dtype("histogram_cpu", self.dtype());
  check(bins > 0, "histogram(): expected bins > 0, got ", bins);
  sized(self, IntArrayRef(bins), out);
}

}  // namespace flambeau::shape
