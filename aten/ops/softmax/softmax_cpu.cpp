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

// Tensors as dense rows along `dim`, in the type of the loops.
struct Rows {
  ScalarType compute;
  int64_t dim;
  bool scalar;

  Rows(const Tensor& like, int64_t d)
      : compute(compute_type(like.dtype())), dim(wrap_dim(d, like.dim())), scalar(like.dim() == 0) {
    if (compute != ScalarType::Float32 && compute != ScalarType::Float64)
      fail_dtype("softmax", like.dtype());
  }
  const softmax::Loops& loops() const {
    static const softmax::Loops* const tables[] = FLAMBEAU_ALL_LOOPS(softmax_rows);
    return tables[cpu_isa()][compute == ScalarType::Float64];
  }
  Tensor moved(const Tensor& t) const { return scalar ? t : with_dim_last(t, dim); }
  Tensor dense(const Tensor& t) const { return contiguous_tensor(cast_tensor(moved(t), compute)); }
  // body(rows, n, byte offset, target) on parts of a dense target, which is copied to `result` if
  // that is laid out otherwise.
  template <typename Body>
  void fill(const Tensor& result, const Body& body) const {
    const Tensor target = moved(result);
    const bool direct = target.is_contiguous() && target.dtype() == compute;
    const Tensor out = direct ? target : empty_tensor(target.sizes(), compute);
    const int64_t n = scalar ? 1 : out.size(-1);
    const int64_t row_bytes = n * static_cast<int64_t>(element_size(compute));
    parallel_for(0, out.numel() / n, 4 * n, [&](int64_t begin, int64_t end) {
      const int64_t offset = begin * row_bytes;
      body(end - begin, n, offset, static_cast<char*>(out.data()) + offset);
    });
    if (!direct) copy_into(target, out);
  }
};

const char* bytes_at(const Tensor& t, int64_t offset) {
  return static_cast<const char*>(t.data()) + offset;
}

void run(const Tensor& self, int64_t dim, bool logarithm, Tensor& result) {
  if (self.numel() == 0) return;
  const Rows rows(result, dim);
  const Tensor in = rows.dense(self);
  const auto loop = logarithm ? rows.loops().log_softmax : rows.loops().softmax;
  rows.fill(result, [&](int64_t count, int64_t n, int64_t offset, char* to) {
    loop(count, n, bytes_at(in, offset), to);
  });
}

void run_backward(const Tensor& grad, const Tensor& output, int64_t dim, bool logarithm,
                  Tensor& result) {
  if (output.numel() == 0) return;
  const Rows rows(result, dim);
  const Tensor g = rows.dense(grad), y = rows.dense(output);
  const auto loop = logarithm ? rows.loops().log_softmax_backward : rows.loops().softmax_backward;
  rows.fill(result, [&](int64_t count, int64_t n, int64_t offset, char* to) {
    loop(count, n, bytes_at(g, offset), bytes_at(y, offset), to);
  });
}

}  // namespace

void softmax_cpu(const Tensor& self, int64_t dim, Tensor& result) { run(self, dim, false, result); }
void log_softmax_cpu(const Tensor& self, int64_t dim, Tensor& result) {
  run(self, dim, true, result);
}

void softmax_backward_cpu(const Tensor& grad_output, const Tensor& output, int64_t dim,
                          Tensor& result) {
  run_backward(grad_output, output, dim, false, result);
}
void log_softmax_backward_cpu(const Tensor& grad_output, const Tensor& output, int64_t dim,
                              Tensor& result) {
  run_backward(grad_output, output, dim, true, result);
}

}  // namespace ops

namespace shape {

void softmax(const Tensor& self, int64_t dim, OutSpec* out) {
  wrap_dim(dim, self.dim());
  if (!is_floating_type(self.dtype())) fail_dtype("softmax", self.dtype());
  *out = {DimVector(self.sizes()), {}, self.dtype(), self.device()};
}

}  // namespace shape
}  // namespace flambeau
