// softmax and log_softmax along `dim` on CPU:
//   result[i] = exp(self[i] - max) / sum_j exp(self[j] - max),  log_softmax: its logarithm.
// Subtracting the maximum keeps every exponent <= 0, so exp cannot overflow. Half types compute in
// float. A fiber of only -inf, or with a NaN or +inf, gives NaN, as in PyTorch. Error bound: 4 eps
// relative (softmax), 4 eps of the largest magnitude (log_softmax), tested against float64.
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/softmax/softmax_loops.h"
#include "c10/core/isa.h"
#include "torchgen_out/aten/softmax_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(softmax::Loops, softmax_rows)

namespace ops {
namespace {

// The tensor with `dim` moved to the end, without history.
Tensor with_dim_last(const Tensor& t, int64_t dim) {
  DimVector sizes(t.sizes()), strides(t.strides());
  const auto at = static_cast<size_t>(dim);
  const int64_t size = sizes[at], stride = strides[at];
  sizes.erase(at);
  strides.erase(at);
  sizes.push_back(size);
  strides.push_back(stride);
  Tensor out(make_intrusive<TensorImpl>(t.storage(), t.dtype(), t.device()));
  out.impl()->set_geometry(sizes, strides, t.storage_offset());
  return out;
}

void run(const Tensor& self, int64_t dim, bool logarithm, Tensor& result) {
  if (self.numel() == 0) return;
  const bool scalar = self.dim() == 0;
  dim = wrap_dim(dim, self.dim());
  const ScalarType compute = compute_type(result.dtype());
  if (compute != ScalarType::Float32 && compute != ScalarType::Float64)
    fail_dtype("softmax", result.dtype());
  const Tensor moved = scalar ? self : with_dim_last(self, dim);
  const Tensor in = contiguous_tensor(cast_tensor(moved, compute));
  const Tensor target = scalar ? result : with_dim_last(result, dim);
  const bool direct = target.is_contiguous() && target.dtype() == compute;
  const Tensor out = direct ? target : empty_tensor(in.sizes(), compute);
  static const softmax::Loops* const tables[] = FLAMBEAU_ALL_LOOPS(softmax_rows);
  const softmax::Loops& loops = tables[cpu_isa()][compute == ScalarType::Float64];
  const int64_t n = scalar ? 1 : in.size(-1);
  const int64_t row_bytes = n * static_cast<int64_t>(element_size(compute));
  parallel_for(0, in.numel() / n, 4 * n, [&](int64_t begin, int64_t end) {
    const char* from = static_cast<const char*>(in.data()) + begin * row_bytes;
    char* to = static_cast<char*>(out.data()) + begin * row_bytes;
    (logarithm ? loops.log_softmax : loops.softmax)(end - begin, n, from, to);
  });
  if (!direct) copy_into(target, out);
}

}  // namespace

void softmax_cpu(const Tensor& self, int64_t dim, Tensor& result) { run(self, dim, false, result); }
void log_softmax_cpu(const Tensor& self, int64_t dim, Tensor& result) {
  run(self, dim, true, result);
}

}  // namespace ops

namespace shape {

void softmax(const Tensor& self, int64_t dim, OutSpec* out) {
  wrap_dim(dim, self.dim());
  if (!is_floating_type(self.dtype())) {
    fail(ErrorKind::NotImplemented, "\"softmax_kernel_impl\" not implemented for '", self.dtype(),
         "'");
  }
  *out = {DimVector(self.sizes()), {}, self.dtype(), self.device()};
}

}  // namespace shape
}  // namespace flambeau
