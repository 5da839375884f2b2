// softmax and log_softmax along `dim` on CPU. Subtracting the maximum first keeps every exponent <=
// 0, so exp cannot overflow, and differences of large elements exact.
// Formula:
//   result[i] = exp(self[i] - max) / sum_j exp(self[j] - max),
//   log_softmax: (self[i] - max) - log sum_j exp(self[j] - max).
// Accumulates in: the dtype; half types compute in float32.
// NaN, infinity: a fiber of only -inf, or with a NaN or +inf, gives NaN, as in PyTorch.
// Error: 4 eps relative (softmax), 4 eps of the largest result (log_softmax), tested against
// float64.
// Source: by definition.
#include <algorithm>
#include <memory>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/fibers.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/softmax/softmax_loops.h"
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

// Runs of at least this many adjacent fibers are processed in place, in vectors across
// them; others are made dense rows first.
constexpr int64_t kLeastColumns = 16;

// The fibers along `dim`, in the type of the loops.
struct Layout {
  ScalarType compute;
  int64_t dim;
  bool scalar;
  FiberGrid grid;

  Layout(const Tensor& like, int64_t d)
      : compute(compute_type(like.dtype())),
        dim(wrap_dim(d, like.dim())),
        scalar(like.dim() == 0),
        grid(like.sizes(), dim) {
    if (compute != ScalarType::Float32 && compute != ScalarType::Float64)
      fail_dtype("softmax", like.dtype());
  }
  const softmax::Loops& loops() const {
    static const LoopTable<softmax::Loops> table = FLAMBEAU_LOOP_TABLE(softmax_rows);
    return table[compute == ScalarType::Float64];
  }
  bool by_columns() const { return grid.inner >= kLeastColumns; }
  Tensor arranged(const Tensor& t) const {
    return scalar || by_columns() ? t : with_dim_last(t, dim);
  }
  Tensor dense(const Tensor& t) const {
    return contiguous_tensor(cast_tensor(arranged(t), compute));
  }
  // fill(dense tensor) into `result`, which may be laid out otherwise.
  template <typename Fill>
  void deliver(const Tensor& result, const Fill& fill) const {
    const Tensor target = arranged(result);
    const bool direct = target.is_contiguous() && target.dtype() == compute;
    const Tensor out = direct ? target : empty_tensor(target.sizes(), compute);
    fill(out);
    if (!direct) copy_into(target, out);
  }
  // body(rows, n, byte offset) on parts of a dense tensor.
  template <typename Body>
  void each_row_range(const Body& body) const {
    const int64_t row_bytes = grid.size * static_cast<int64_t>(element_size(compute));
    parallel_for(0, grid.fibers(), 4 * grid.size, [&](int64_t begin, int64_t end) {
      body(end - begin, grid.size, begin * row_bytes);
    });
  }
  // body(columns, byte offset) on parts of a dense tensor.
  template <typename Body>
  void each_column_block(const Body& body) const {
    const auto bytes = static_cast<int64_t>(element_size(compute));
    const int64_t across = (grid.inner + softmax::kColumns - 1) / softmax::kColumns;
    const int64_t cost = 4 * grid.size * std::min(grid.inner, softmax::kColumns);
    parallel_for(0, grid.outer * across, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % across * softmax::kColumns;
        const int64_t width = std::min(softmax::kColumns, grid.inner - first);
        body(softmax::Columns{grid.size, grid.inner, width},
             (i / across * grid.size * grid.inner + first) * bytes);
      }
    });
  }
};

const char* bytes_at(const Tensor& t, int64_t offset) {
  return static_cast<const char*>(t.data()) + offset;
}
char* bytes_of(const Tensor& t, int64_t offset) { return static_cast<char*>(t.data()) + offset; }

using RowLoop = void (*)(int64_t rows, int64_t n, const void* in, void* out);

// Rows of a half type, each widened into a buffer, computed there and rounded.
void run_half_rows(const Layout& layout, RowLoop loop, const Tensor& in, const Tensor& out) {
  const CastLoop widen = cast_loop(in.dtype(), ScalarType::Float32),
                 narrow = cast_loop(ScalarType::Float32, out.dtype());
  constexpr int64_t kHalf = 2, kWide = sizeof(float);
  const int64_t n = layout.grid.size;
  parallel_for(0, layout.grid.fibers(), 4 * n, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<float[]> row(new float[static_cast<size_t>(n)]);
    char* const wide = reinterpret_cast<char*>(row.get());
    for (int64_t i = begin; i < end; ++i) {
      widen(n, bytes_at(in, i * n * kHalf), kHalf, wide, kWide);
      loop(1, n, wide, wide);
      narrow(n, wide, kWide, bytes_of(out, i * n * kHalf), kHalf);
    }
  });
}

void run(const Tensor& self, int64_t dim, bool logarithm, Tensor& result) {
  if (self.numel() == 0) return;
  const Layout layout(result, dim);
  if (is_reduced_floating_type(result.dtype()) && self.dtype() == result.dtype() &&
      !layout.by_columns()) {
    const Tensor in = layout.arranged(self), out = layout.arranged(result);
    if (in.is_contiguous() && out.is_contiguous()) {
      const softmax::Loops& loops = layout.loops();
      return run_half_rows(layout, logarithm ? loops.log_softmax : loops.softmax, in, out);
    }
  }
  const Tensor in = layout.dense(self);
  const softmax::Loops& loops = layout.loops();
  const auto rows = logarithm ? loops.log_softmax : loops.softmax;
  const auto columns = logarithm ? loops.log_softmax_columns : loops.softmax_columns;
  layout.deliver(result, [&](const Tensor& out) {
    if (layout.by_columns()) {
      layout.each_column_block([&](const softmax::Columns& c, int64_t at) {
        columns(c, bytes_at(in, at), bytes_of(out, at));
      });
    } else {
      layout.each_row_range([&](int64_t count, int64_t n, int64_t at) {
        rows(count, n, bytes_at(in, at), bytes_of(out, at));
      });
    }
  });
}

void run_backward(const Tensor& grad, const Tensor& output, int64_t dim, bool logarithm,
                  Tensor& result) {
  if (output.numel() == 0) return;
  const Layout layout(result, dim);
  const Tensor g = layout.dense(grad), y = layout.dense(output);
  const softmax::Loops& loops = layout.loops();
  const auto rows = logarithm ? loops.log_softmax_backward : loops.softmax_backward;
  const auto columns =
      logarithm ? loops.log_softmax_backward_columns : loops.softmax_backward_columns;
  layout.deliver(result, [&](const Tensor& out) {
    if (layout.by_columns()) {
      layout.each_column_block([&](const softmax::Columns& c, int64_t at) {
        columns(c, bytes_at(g, at), bytes_at(y, at), bytes_of(out, at));
      });
    } else {
      layout.each_row_range([&](int64_t count, int64_t n, int64_t at) {
        rows(count, n, bytes_at(g, at), bytes_at(y, at), bytes_of(out, at));
      });
    }
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
