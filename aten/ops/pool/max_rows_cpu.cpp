// Maxima over windows of the last dimension on CPU, without their places.
// Formula: result[.., k] = max_j self[.., k * stride - padding + j * dilation]; places outside
// count as -inf.
// Accumulates in: none: values are moved; half types are widened and narrowed.
// NaN, infinity: NaN wins.
// Error: none: exact.
// Source: by definition.
#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/pool/pool_loops.h"
#include "torchgen_out/aten/pool_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(pool::MaxRowLoop, pool_max_rows)

namespace ops {

void max_pool_row_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                      IntArrayRef padding, IntArrayRef dilation, bool, Tensor& out) {
  const int64_t count = out.numel();
  if (count == 0) return;
  const ScalarType compute = compute_type(self.dtype());
  if (!is_floating_type(compute)) fail_dtype("max_pool1d", self.dtype());
  static const LoopTable<pool::MaxRowLoop> table = FLAMBEAU_LOOP_TABLE(pool_max_rows);
  const pool::MaxRowLoop loop = table[compute == ScalarType::Float64];
  const Tensor in = contiguous_tensor(cast_tensor(self, compute));
  const bool direct = out.dtype() == compute && out.is_contiguous();
  const Tensor to = direct ? out : empty_tensor(out.sizes(), compute);
  const pool::RowWindows w{self.size(-1), out.size(-1), kernel_size[0],
                           stride[0],     padding[0],   dilation[0]};
  const auto width = static_cast<int64_t>(element_size(compute));
  parallel_for(0, count / w.out, w.in + w.out * std::min(w.size, w.in),
               [&](int64_t first, int64_t last) {
                 loop(w, last - first, static_cast<const char*>(in.data()) + first * w.in * width,
                      static_cast<char*>(to.data()) + first * w.out * width);
               });
  if (!direct) copy_into(out, to);
}

}  // namespace ops
}  // namespace flambeau
