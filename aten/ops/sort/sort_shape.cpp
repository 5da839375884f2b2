// Shape rules of sorting and selecting, with the checks of their arguments.
#include <limits>

#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::shape {
namespace {

int64_t size_along(const Tensor& self, int64_t dim) { return self.dim() ? self.size(dim) : 1; }

void check_not_empty(const char* op, const Tensor& self, int64_t dim) {
  const int64_t along = wrap_dim(dim, self.dim());
  check_index(size_along(self, along) > 0, op, "(): Expected reduction dim ", along,
              " to have non-zero size.");
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
          "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
    check(!right || *side == "right",
          "torch.searchsorted(): side and right can't be set to opposites, got side of left while "
          "right was True");
  }
  if (!sorter.defined()) return;
  check(
      sorter.sizes() == sequence.sizes(),
      "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor ",
      sequence.sizes(), " and got sorter tensor ", sorter.sizes());
  check(sorter.dtype() == ScalarType::Int64,
        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ",
        sorter.dtype());
}

}  // namespace

void sort(const Tensor& self, int64_t dim, OutSpec* out) {
  wrap_dim(dim, self.dim());
  check(!self.is_complex(), "Sort does not support complex dtypes on CPU, got ", self.dtype());
  like_preserving(self, out);
  add_places(out);
}

void topk(const Tensor& self, int64_t k, int64_t dim, OutSpec* out) {
  const int64_t along = wrap_dim(dim, self.dim());
  check(k >= 0 && k <= size_along(self, along), "selected index k out of range: expected at most ",
        size_along(self, along), ", got ", k);
  check(is_ordered_number(self.dtype()), "topk does not support ",
        self.is_complex() ? "complex" : "bool", " dtypes on CPU");
  like(self, out);
  if (self.dim()) out->sizes[static_cast<size_t>(along)] = k;
  add_places(out);
}

void kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim, OutSpec* out) {
  check_not_empty("kthvalue", self, dim);
  const int64_t along = wrap_dim(dim, self.dim());
  check(k >= 1 && k <= size_along(self, along),
        "kthvalue(): selected number k out of range for dimension ", along);
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
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
        "is 1, but "
        "we got boundaries tensor dim(",
        sequence.size(), ") and input value's dim(0) numel(1)");
  check(!sequence.empty(),
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
        "dimension");
  const bool same_leading =
      sequence.size() == values.size() &&
      sequence.slice(0, sequence.size() - 1) == values.slice(0, values.size() - 1);
  check(sequence.size() == 1 || same_leading,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
        "of "
        "boundaries tensor and input value tensor must match, but we got boundaries tensor ",
        sequence, " and input value tensor ", values);
  check(!out_int32 || sequence.back() < std::numeric_limits<int32_t>::max(),
        "torch.searchsorted(): the size of boundaries' last dimension should be less than ",
        std::numeric_limits<int32_t>::max(), ", but we got ", sequence.back());
  like(self, out_int32 ? ScalarType::Int32 : ScalarType::Int64, out);
}

void bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, OutSpec* out) {
  check(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
        boundaries.dim(), ")");
  searchsorted(boundaries, self, out_int32, false, std::nullopt, Tensor(), out);
}

void histc(const Tensor& self, int64_t bins, OutSpec* out) {
  if (!self.is_floating_point()) fail_dtype("histogram_cpu", self.dtype());
  check(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0");
  sized(self, IntArrayRef(bins), out);
}

}  // namespace flambeau::shape
