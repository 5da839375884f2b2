// Normalisation over any dimensions on CPU, with the statistics, and its gradient:
//   normal = (input - center) / sqrt(variance + eps), center and variance (biased) along `dim`.
// Kept dimensions that lie together, and a batch ahead of them, are read where they are, others are
// brought to the front first; channels of channels-last images stay where they are, innermost.
// Half types compute in float; statistics are rounded to the result's type. A NaN or infinity gives
// NaN to its whole group, and so does an empty group to its statistics.
#include <algorithm>
#include <utility>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/norm/normalize_loops.h"
#include "c10/core/isa.h"
#include "torchgen_out/aten/norm_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(norm::Loops, normalize)

namespace {

// Whether all dimensions but the channels are reduced, as batch norm does.
bool is_per_channel(const Tensor& t, uint64_t mask) {
  return mask == (((uint64_t{1} << t.dim()) - 1) & ~uint64_t{2});
}

}  // namespace

namespace ops {
namespace {

constexpr int64_t kShortRow = 32;  // a run of less is not worth a loop of its own

// Where the groups of elements that are normalised together lie.
struct Grouping {
  int64_t batch = 1;  // of planes that have groups of their own
  norm::Planes planes{1, 1, 1};
  DimVector order;  // of the dimensions, so that the planes describe the tensor
  bool moved = false;
  bool rows = false;  // runs are short: all channels of a row at once

  // `model`: whose format the results have.
  Grouping(const Tensor& model, uint64_t mask) {
    const IntArrayRef sizes = model.sizes();
    if (is_channels_last_ordered(model) && is_per_channel(model, mask)) {
      planes = {model.numel() / model.size(1), model.size(1), 1};
      for (int64_t d = 0; d < model.dim(); ++d) {
        if (d != 1) order.push_back(d);
      }
      order.push_back(1);
      moved = rows = true;
      return;
    }
    const auto reduced = [&](size_t d) { return (mask >> d & 1) != 0; };
    std::vector<std::pair<bool, int64_t>> runs;  // of reduced or kept dimensions: their number
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      if (runs.empty() || runs.back().first != reduced(d)) runs.emplace_back(reduced(d), 1);
      runs.back().second *= sizes[d];
    }
    size_t at = 0;
    const auto next = [&](bool wanted) {
      return at < runs.size() && runs[at].first == wanted ? runs[at++].second : 1;
    };
    if (runs.size() > 2) batch = next(false);
    planes.outer = next(true);
    planes.channels = next(false);
    planes.inner = next(true);
    moved = at < runs.size();
    rows = !moved && planes.outer > 1 && planes.inner < kShortRow;
    if (!moved) return;
    batch = 1;
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
  // body(first channel, last channel, elements and channels in the planes before), in parallel.
  template <typename Body>
  void for_each(int64_t cost, const Body& body) const {
    const int64_t plane = planes.outer * planes.channels * planes.inner;
    parallel_for(0, batch * planes.channels, cost * planes.outer * planes.inner,
                 [&](int64_t first, int64_t last) {
                   while (first < last) {
                     const int64_t b = first / planes.channels, start = b * planes.channels;
                     const int64_t end = std::min(last, start + planes.channels);
                     body(first - start, end - start, b * plane, start);
                     first = end;
                   }
                 });
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
  const Grouping groups(normal, dim_mask(dim, input.dim()));
  const ScalarType type = loop_type(input.dtype());
  const Tensor in = groups.dense(input, type);
  const Target out(groups.arranged(normal), type), mean(center, type), spread(variance, type);
  const norm::Planes& p = groups.planes;
  const norm::Loops& loops = loops_for(type);
  const auto bytes = static_cast<int64_t>(element_size(type));
  const auto at = [bytes](void* data, int64_t i) { return static_cast<char*>(data) + i * bytes; };
  groups.for_each(3, [&](int64_t first, int64_t last, int64_t element, int64_t group) {
    if (groups.rows) {
      std::vector<double> scratch(static_cast<size_t>(5 * (last - first) * p.inner));
      return loops.forward_rows(p, first, last, eps, at(in.data(), element),
                                at(out.data(), element), at(mean.data(), group),
                                at(spread.data(), group), scratch.data());
    }
    loops.forward(p, first, last, eps, at(in.data(), element), at(out.data(), element),
                  at(mean.data(), group), at(spread.data(), group));
  });
  for (const Target* t : {&out, &mean, &spread}) t->deliver();
}

void normalize_over_backward_cpu(const Tensor& grad_normal, const Tensor& grad_variance,
                                 const Tensor& normal, const Tensor& variance, IntArrayRef dim,
                                 double eps, Tensor& grad_input) {
  if (normal.numel() == 0) return;
  const Grouping groups(grad_input, dim_mask(dim, normal.dim()));
  const ScalarType type = loop_type(normal.dtype());
  const Tensor g = groups.dense(grad_normal, type), y = groups.dense(normal, type);
  const Tensor spread = contiguous_tensor(cast_tensor(variance, type));
  const Tensor g_spread =
      grad_variance.defined() ? contiguous_tensor(cast_tensor(grad_variance, type)) : grad_variance;
  const Target out(groups.arranged(grad_input), type);
  const norm::Planes& p = groups.planes;
  const norm::Loops& loops = loops_for(type);
  void* g_variance = g_spread.defined() ? g_spread.data() : nullptr;
  const auto bytes = static_cast<int64_t>(element_size(type));
  const auto at = [bytes](void* data, int64_t i) {
    return data ? static_cast<char*>(data) + i * bytes : nullptr;
  };
  groups.for_each(4, [&](int64_t first, int64_t last, int64_t element, int64_t group) {
    if (groups.rows) {
      std::vector<double> scratch(static_cast<size_t>(5 * (last - first) * p.inner));
      return loops.backward_rows(p, first, last, eps, at(g.data(), element), at(g_variance, group),
                                 at(y.data(), element), at(spread.data(), group),
                                 at(out.data(), element), scratch.data());
    }
    loops.backward(p, first, last, eps, at(g.data(), element), at(g_variance, group),
                   at(y.data(), element), at(spread.data(), group), at(out.data(), element));
  });
  out.deliver();
}

}  // namespace ops

namespace shape {

void normalize_over(const Tensor& input, IntArrayRef dim, OutSpec* out) {
  const uint64_t mask = dim_mask(dim, input.dim());
  out[0] = {DimVector(input.sizes()), {}, input.dtype(), input.device()};
  if (is_per_channel(input, mask)) keep_format(input, out);
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
  if (is_per_channel(normal, dim_mask(dim, normal.dim()))) keep_format(normal, out);
}

}  // namespace shape
}  // namespace flambeau
