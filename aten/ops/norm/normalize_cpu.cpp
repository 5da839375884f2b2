// Normalisation over any dimensions on CPU, with the statistics, and its gradient:
//   normal = (input - center) / sqrt(variance + eps), center and variance (biased) along `dim`.
// Kept dimensions that lie together are read where they are, others are brought to the front first.
// Half types compute in float; statistics are rounded to the result's type. A NaN or infinity gives
// NaN to its whole group, and so does an empty group to its statistics.
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/norm/normalize_loops.h"
#include "c10/core/isa.h"
#include "torchgen_out/aten/norm_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(norm::Loops, normalize)

namespace ops {
namespace {

constexpr int64_t kShortRow = 8;  // a row of less is not worth a loop of its own

// Where the groups of elements that are normalised together lie.
struct Grouping {
  norm::Planes planes{1, 1, 1};
  DimVector order;  // of the dimensions, so that the planes describe the tensor
  bool moved = false;

  Grouping(IntArrayRef sizes, uint64_t mask) {
    const auto reduced = [&](size_t d) { return (mask >> d & 1) != 0; };
    size_t begin = 0, end = sizes.size();  // the kept dimensions and what lies between them
    while (begin < end && (reduced(begin) || sizes[begin] == 1)) ++begin;
    while (end > begin && (reduced(end - 1) || sizes[end - 1] == 1)) --end;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool inside = d >= begin && d < end;
      (inside ? planes.channels : d < begin ? planes.outer : planes.inner) *= sizes[d];
      moved |= inside && reduced(d) && sizes[d] != 1;
    }
    moved |= planes.outer > 1 && planes.inner < kShortRow;
    if (!moved) return;
    planes = {1, 1, 1};
    for (const bool wanted : {false, true}) {
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (reduced(d) != wanted) continue;
        order.push_back(static_cast<int64_t>(d));
        (wanted ? planes.inner : planes.channels) *= sizes[d];
      }
    }
  }

  Tensor arranged(const Tensor& t) const {
    if (!moved) return t;
    ViewGeometry geometry{{}, {}, t.storage_offset()};
    for (const int64_t d : order) {
      geometry.sizes.push_back(t.size(d));
      geometry.strides.push_back(t.stride(d));
    }
    return plain_view(t, geometry);
  }
  Tensor dense(const Tensor& t, ScalarType type) const {
    return contiguous_tensor(cast_tensor(arranged(t), type));
  }
};

// A tensor to be filled densely, and copied to where it belongs at the end if that is elsewhere.
class Target {
 public:
  Target(const Tensor& arranged, ScalarType type)
      : place_(arranged),
        dense_(arranged.is_contiguous() && arranged.dtype() == type
                   ? arranged
                   : empty_tensor(arranged.sizes(), type)) {}
  void* data() const { return dense_.data(); }
  void deliver() const {
    if (dense_.data() != place_.data()) copy_into(place_, dense_);
  }

 private:
  Tensor place_, dense_;
};

ScalarType loop_type(ScalarType dtype) {
  const ScalarType type = compute_type(dtype);
  if (type != ScalarType::Float32 && type != ScalarType::Float64) fail_dtype("normalize", dtype);
  return type;
}

const norm::Loops& loops_for(ScalarType type) {
  static const norm::Loops* const tables[] = FLAMBEAU_ALL_LOOPS(normalize);
  return tables[cpu_isa()][type == ScalarType::Float64];
}

}  // namespace

void normalize_over_cpu(const Tensor& input, IntArrayRef dim, double eps, Tensor& normal,
                        Tensor& center, Tensor& variance) {
  const Grouping groups(input.sizes(), dim_mask(dim, input.dim()));
  const ScalarType type = loop_type(input.dtype());
  const Tensor in = groups.dense(input, type);
  const Target out(groups.arranged(normal), type), mean(center, type), spread(variance, type);
  const norm::Planes& p = groups.planes;
  const norm::Loops& loops = loops_for(type);
  parallel_for(0, p.channels, 3 * p.outer * p.inner, [&](int64_t first, int64_t last) {
    loops.forward(p, first, last, eps, in.data(), out.data(), mean.data(), spread.data());
  });
  for (const Target* t : {&out, &mean, &spread}) t->deliver();
}

void normalize_over_backward_cpu(const Tensor& grad_normal, const Tensor& grad_variance,
                                 const Tensor& normal, const Tensor& variance, IntArrayRef dim,
                                 double eps, Tensor& grad_input) {
  if (normal.numel() == 0) return;
  const Grouping groups(normal.sizes(), dim_mask(dim, normal.dim()));
  const ScalarType type = loop_type(normal.dtype());
  const Tensor g = groups.dense(grad_normal, type), y = groups.dense(normal, type);
  const Tensor spread = contiguous_tensor(cast_tensor(variance, type));
  const Tensor g_spread =
      grad_variance.defined() ? contiguous_tensor(cast_tensor(grad_variance, type)) : grad_variance;
  const Target out(groups.arranged(grad_input), type);
  const norm::Planes& p = groups.planes;
  const norm::Loops& loops = loops_for(type);
  parallel_for(0, p.channels, 4 * p.outer * p.inner, [&](int64_t first, int64_t last) {
    loops.backward(p, first, last, eps, g.data(), g_spread.defined() ? g_spread.data() : nullptr,
                   y.data(), spread.data(), out.data());
  });
  out.deliver();
}

}  // namespace ops

namespace shape {

void normalize_over(const Tensor& input, IntArrayRef dim, OutSpec* out) {
  const uint64_t mask = dim_mask(dim, input.dim());
  out[0] = {DimVector(input.sizes()), {}, input.dtype(), input.device()};
  out[1] = {reduced_sizes(input.sizes(), mask, true), {}, input.dtype(), input.device()};
  out[2] = out[1];
}

void normalize_over_backward(const Tensor& grad_normal, const Tensor& grad_variance,
                             const Tensor& normal, const Tensor& variance, IntArrayRef dim,
                             OutSpec* out) {
  check_grad_output("_normalize_over_backward", grad_normal, normal.sizes());
  const DimVector kept = reduced_sizes(normal.sizes(), dim_mask(dim, normal.dim()), true);
  check(variance.sizes() == kept.ref(), "_normalize_over_backward: expected variance of shape ",
        kept, ", got ", variance.sizes());
  if (grad_variance.defined()) check_grad_output("_normalize_over_backward", grad_variance, kept);
  like(normal, out);
}

}  // namespace shape
}  // namespace flambeau
