// Normalisation over any dimensions on CPU, with the statistics (biased variance), and its
// gradient. Adjacent kept dimensions, and a batch ahead of them, are read in place, and so are
// channels of channels-last images; others are brought to the front first.
// Formula: normal = (input - center) / sqrt(variance + eps), output = normal * weight + bias.
// Accumulates in: float32 for half types, else up to float64; statistics round to the dtype.
// NaN, infinity: either gives NaN to its whole group, and so does an empty group to its statistics.
// Error: 1e-11 relative in float64, 2^-8 in bfloat16 (test/ops/test_norm.py).
// Source: by definition.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/norm/channels.h"
#include "aten/ops/norm/normalize_loops.h"
#include "torchgen_out/aten/norm_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(norm::Loops, normalize)

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

  // `model`: whose format the results have. `joins`: dimensions of size 1 part no others.
  Grouping(const Tensor& model, uint64_t mask, bool joins = true) {
    const IntArrayRef sizes = model.sizes();
    if (is_channels_last_ordered(model) && norm::is_per_channel(model, mask)) {
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
      if (sizes[d] == 1 && joins) continue;
      if (runs.empty() || runs.back().first != reduced(d)) runs.emplace_back(reduced(d), 1);
      runs.back().second *= sizes[d];
    }
    size_t at = 0;
    const auto next = [&](bool wanted) {
      return at < runs.size() && runs[at].first == wanted ? runs[at++].second : 1;
    };
    if (runs.size() > 2) batch = next(false);
    if (runs.size() > 1) planes.outer = next(true);  // all of a tensor is one run
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
  int64_t count() const { return batch * planes.channels; }
  int64_t group_size() const { return planes.outer * planes.inner; }
  // body(first channel, last channel, elements and channels in the planes before) for groups
  // first <= i < last of all.
  template <typename Body>
  void each_plane(int64_t first, int64_t last, const Body& body) const {
    while (first < last) {
      const int64_t b = first / planes.channels, start = b * planes.channels;
      const int64_t end = std::min(last, start + planes.channels);
      body(first - start, end - start, start * group_size(), start);
      first = end;
    }
  }
  // The same for all groups, in parallel.
  template <typename Body>
  void for_each(int64_t cost, const Body& body) const {
    parallel_for(0, count(), cost * group_size(),
                 [&](int64_t first, int64_t last) { each_plane(first, last, body); });
  }
  std::vector<double> scratch(int64_t first, int64_t last) const {
    const int64_t columns = std::max((last - first) * planes.inner, norm::kJoined);
    return std::vector<double>(static_cast<size_t>(rows ? 7 * columns : 2 * planes.inner));
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
  static const LoopTable<norm::Loops> table = FLAMBEAU_LOOP_TABLE(normalize);
  return table[type == ScalarType::Float64];
}

// How weights lie along the groups. Of a weight that has the input's dimensions, or is broadcast
// along them: it may vary along the innermost kept dimensions, and the outermost reduced ones of a
// run.
class Weights {
 public:
  Weights(const Grouping& groups, const Tensor& input, uint64_t mask, const Tensor& weight,
          const Tensor& bias, ScalarType type) {
    const bool empty = input.numel() == 0;  // and so may be the weights, which nothing reads
    const Tensor& model = weight.defined() ? weight : bias;
    if (model.defined() && !empty) find_layout(groups, input, mask, model);
    const int64_t inner = groups.planes.inner, count = affine_.period * affine_.width;
    const bool spread = affine_.width > 1 && inner / affine_.width < kShortRow && !groups.rows;
    for (const bool is_weight : {true, false}) {
      const Tensor& given = is_weight ? weight : bias;
      Tensor& values = is_weight ? weight_ : bias_;
      if (given.defined() && !empty) {
        values = contiguous_tensor(cast_tensor(given, type));
      } else {
        values = empty_tensor({count}, type);
        fill_with(values, Scalar(is_weight ? 1.0 : 0.0));
      }
      if (spread) {
        values = contiguous_tensor(
            plain_view(values, {{count, inner / affine_.width}, {1, 0}, values.storage_offset()}));
      }
      (is_weight ? affine_.weight : affine_.bias) = values.data();
    }
    if (spread) {
      repeats_ = inner / affine_.width;
      affine_.width = inner;
    }
  }
  const norm::Affine& affine() const { return affine_; }
  int64_t count() const { return affine_.period * affine_.width; }
  // How many neighbouring sums belong to one weight.
  int64_t repeats() const { return repeats_; }

 private:
  void find_layout(const Grouping& groups, const Tensor& input, uint64_t mask,
                   const Tensor& model) {
    if (groups.moved) {
      affine_.period = model.numel();
      check(norm::is_per_channel(input, mask) && model.numel() == input.size(1), kMisplaced);
      return;
    }
    // From the innermost dimension on: elements that share a number, those that do not, channels.
    int stage = 0;
    for (int64_t d = input.dim() - 1; d >= 0; --d) {
      const int64_t at = d - input.dim() + model.dim(), size = at < 0 ? 1 : model.size(at);
      const bool reduced = (mask >> d & 1) != 0, varies = size > 1;
      if (!reduced && stage < 2) stage = 2;
      if (input.size(d) == 1) continue;
      if (reduced && stage >= 2) stage = 4;
      if (stage == 0 && varies) stage = 1;
      if (stage == 1 && !varies) stage = 3;
      if (stage == 2 && !varies) stage = 3;
      check(!varies || stage < 3, kMisplaced);
      if (varies) (reduced ? affine_.width : affine_.period) *= size;
    }
    check(groups.planes.inner % affine_.width == 0 && groups.planes.channels % affine_.period == 0,
          kMisplaced);
  }
  static constexpr const char* kMisplaced =
      "_normalize_affine: expected weights along channels, or along the dimensions normalised over";
  norm::Affine affine_{nullptr, nullptr, 1, 1};
  int64_t repeats_ = 1;
  Tensor weight_, bias_;
};

// Whether groups are runs of a half type, each of which a buffer can hold.
bool has_half_runs(const Grouping& groups, const Tensor& input, const Tensor& output) {
  constexpr int64_t kLargest = 1 << 17;
  return is_reduced_floating_type(input.dtype()) && !groups.moved && !groups.rows &&
         groups.planes.outer == 1 && groups.planes.inner <= kLargest && input.is_contiguous() &&
         output.is_contiguous();
}

// Groups that are widened, normalised and rounded one after the other.
void normalize_half_runs(const Grouping& groups, const norm::Loops& loops, const Tensor& input,
                         const norm::Affine& affine, double eps, const Tensor& output, float* mean,
                         float* spread) {
  const CastLoop widen = cast_loop(input.dtype(), ScalarType::Float32),
                 narrow = cast_loop(ScalarType::Float32, output.dtype());
  constexpr int64_t kHalf = 2, kWide = sizeof(float);
  const int64_t n = groups.planes.inner, period = affine.period;
  parallel_for(0, groups.count(), 3 * n, [&](int64_t first, int64_t last) {
    const std::unique_ptr<float[]> run(new float[static_cast<size_t>(n)]);
    char* const wide = reinterpret_cast<char*>(run.get());
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = i % groups.planes.channels % period * affine.width;
      const norm::Affine own{static_cast<const float*>(affine.weight) + at,
                             static_cast<const float*>(affine.bias) + at, affine.width, 1};
      widen(n, static_cast<const char*>(input.data()) + i * n * kHalf, kHalf, wide, kWide);
      loops.forward({1, 1, n, groups.planes.centered}, 0, 1, eps, wide, own, wide, mean + i,
                    spread + i);
      narrow(n, wide, kWide, static_cast<char*>(output.data()) + i * n * kHalf, kHalf);
    }
  });
}

// About zero, `center` is filled with zeros.
void normalize(bool centered, const Tensor& input, const Tensor& weight, const Tensor& bias,
               IntArrayRef dim, double eps, Tensor& output, Tensor& center, Tensor& variance) {
  const uint64_t mask = dim_mask(dim, input.dim());
  Grouping groups(output, mask, !weight.defined() && !bias.defined());
  groups.planes.centered = centered;
  const ScalarType type = loop_type(input.dtype());
  const Weights weights(groups, input, mask, weight, bias, type);
  const Target mean(center, type), spread(variance, type);
  const norm::Loops& loops = loops_for(type);
  if (has_half_runs(groups, input, output)) {
    normalize_half_runs(groups, loops, input, weights.affine(), eps, output,
                        static_cast<float*>(mean.data()), static_cast<float*>(spread.data()));
    mean.deliver();
    return spread.deliver();
  }
  const Tensor in = groups.dense(input, type);
  const Target out(groups.arranged(output), type);
  const norm::Planes& p = groups.planes;
  const auto bytes = static_cast<int64_t>(element_size(type));
  const auto at = [bytes](void* data, int64_t i) { return static_cast<char*>(data) + i * bytes; };
  groups.for_each(3, [&](int64_t first, int64_t last, int64_t element, int64_t group) {
    if (groups.rows) {
      return loops.forward_rows(p, first, last, eps, at(in.data(), element), weights.affine(),
                                at(out.data(), element), at(mean.data(), group),
                                at(spread.data(), group), groups.scratch(first, last).data());
    }
    loops.forward(p, first, last, eps, at(in.data(), element), weights.affine(),
                  at(out.data(), element), at(mean.data(), group), at(spread.data(), group));
  });
  for (const Target* t : {&out, &mean, &spread}) t->deliver();
}

}  // namespace

void normalize_affine_cpu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                          IntArrayRef dim, double eps, Tensor& output, Tensor& center,
                          Tensor& variance) {
  normalize(true, input, weight, bias, dim, eps, output, center, variance);
}

void normalize_rms_cpu(const Tensor& input, const Tensor& weight, IntArrayRef dim, double eps,
                       Tensor& output, Tensor& mean_square) {
  Tensor zeros = empty_like_tensor(mean_square);
  normalize(false, input, weight, Tensor(), dim, eps, output, zeros, mean_square);
}

void normalize_over_cpu(const Tensor& input, IntArrayRef dim, double eps, Tensor& normal,
                        Tensor& center, Tensor& variance) {
  normalize_affine_cpu(input, Tensor(), Tensor(), dim, eps, normal, center, variance);
}

namespace {

// Sums for the gradients of weight and bias. Groups that share numbers are added up in parts which
// do not depend on the number of threads.
class SharedSums {
 public:
  SharedSums(const Grouping& groups, const Weights& weights, bool weight, bool bias)
      : groups_(groups),
        count_(weights.count()),
        weight_(weight),
        bias_(bias),
        apart_((!weight && !bias) || count_ == groups.count() * weights.affine().width) {
    if (apart_) {
      parts_ = 1;
    } else if (groups.rows) {
      parts_ = std::min(groups.batch, kMost);
    } else {
      const int64_t elements = groups.count() * groups.group_size();
      parts_ = std::clamp<int64_t>(elements / (16 * count_), 1, std::min(groups.count(), kMost));
    }
    sums_.resize(static_cast<size_t>(2 * parts_ * count_));
  }
  // body(sums, first channel, last channel, elements and channels in the planes before)
  template <typename Body>
  void for_each(int64_t cost, const Body& body) {
    if (apart_) {
      groups_.for_each(cost, [&](int64_t first, int64_t last, int64_t element, int64_t group) {
        body(part(0), first, last, element, group);
      });
      return;
    }
    const int64_t all = groups_.count();
    parallel_for(
        0, parts_, cost * groups_.group_size() * (all / parts_), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            groups_.each_plane(share(i), share(i + 1),
                               [&](int64_t first, int64_t last, int64_t element, int64_t group) {
                                 body(part(i), first, last, element, group);
                               });
          }
        });
  }
  // Adds up the parts, and `repeats` neighbours each.
  void write(bool of_weight, int64_t repeats, const Tensor& result) const {
    const Tensor wide = empty_tensor({count_ / repeats}, ScalarType::Float64);
    double* to = wide.data_as<double>();
    std::fill_n(to, wide.numel(), 0.0);
    for (int64_t i = 0; i < parts_; ++i) {
      const double* from = sums_.data() + (2 * i + (of_weight ? 0 : 1)) * count_;
      for (int64_t j = 0; j < count_; ++j) to[j / repeats] += from[j];
    }
    const Tensor narrow = cast_tensor(wide, result.dtype());
    copy_into(plain_view(result, {{count_ / repeats}, {1}, result.storage_offset()}), narrow);
  }

 private:
  static constexpr int64_t kMost = 64;
  // Planes that are processed with all channels at once are not divided.
  int64_t share(int64_t i) const {
    return groups_.rows ? i * groups_.batch / parts_ * groups_.planes.channels
                        : i * groups_.count() / parts_;
  }
  norm::AffineSums part(int64_t i) {
    double* at = sums_.data() + 2 * i * count_;
    return {weight_ ? at : nullptr, bias_ ? at + count_ : nullptr};
  }

  const Grouping& groups_;
  int64_t count_, parts_ = 1;
  bool weight_, bias_;
  bool apart_;  // every group has sums of its own
  std::vector<double> sums_;
};

void normalize_backward(bool centered, const Tensor& grad_output, const Tensor& input,
                        const Tensor& center, const Tensor& variance, const Tensor& weight,
                        const Tensor& bias, IntArrayRef dim, double eps, Tensor& grad_input,
                        Tensor& grad_weight, Tensor& grad_bias) {
  if (input.numel() == 0) {
    for (const Tensor* t : {&grad_input, &grad_weight, &grad_bias}) {
      if (t->defined()) fill_with(*t, Scalar(0.0));
    }
    return;
  }
  const uint64_t mask = dim_mask(dim, input.dim());
  const Tensor model = grad_input.defined() ? grad_input : empty_like_tensor(input);
  Grouping groups(model, mask, !weight.defined() && !bias.defined());
  groups.planes.centered = centered;
  const ScalarType type = loop_type(input.dtype());
  const Weights weights(groups, input, mask, weight, bias, type);
  const Tensor g = groups.dense(grad_output, type), x = groups.dense(input, type);
  const Tensor mean = contiguous_tensor(cast_tensor(center, type)),
               spread = contiguous_tensor(cast_tensor(variance, type));
  const Target out(groups.arranged(model), type);
  const norm::Loops& loops = loops_for(type);
  const auto loop = groups.rows ? loops.affine_backward_rows : loops.affine_backward;
  const auto bytes = static_cast<int64_t>(element_size(type));
  const auto at = [bytes](void* data, int64_t i) { return static_cast<char*>(data) + i * bytes; };
  SharedSums sums(groups, weights, grad_weight.defined(), grad_bias.defined());
  sums.for_each(4, [&](const norm::AffineSums& own, int64_t first, int64_t last, int64_t element,
                       int64_t group) {
    loop(groups.planes, first, last, eps, at(g.data(), element), at(x.data(), element),
         at(mean.data(), group), at(spread.data(), group), weights.affine(), own,
         at(out.data(), element), groups.scratch(first, last).data());
  });
  if (grad_input.defined()) out.deliver();
  if (grad_weight.defined()) sums.write(true, weights.repeats(), grad_weight);
  if (grad_bias.defined()) sums.write(false, weights.repeats(), grad_bias);
}

}  // namespace

void normalize_affine_backward_cpu(const Tensor& grad_output, const Tensor& input,
                                   const Tensor& center, const Tensor& variance,
                                   const Tensor& weight, const Tensor& bias, IntArrayRef dim,
                                   double eps, ArrayRef<bool>, Tensor& grad_input,
                                   Tensor& grad_weight, Tensor& grad_bias) {
  normalize_backward(true, grad_output, input, center, variance, weight, bias, dim, eps, grad_input,
                     grad_weight, grad_bias);
}

void normalize_rms_backward_cpu(const Tensor& grad_output, const Tensor& input,
                                const Tensor& mean_square, const Tensor& weight, IntArrayRef dim,
                                double eps, ArrayRef<bool>, Tensor& grad_input,
                                Tensor& grad_weight) {
  const Tensor zeros = empty_like_tensor(mean_square);
  fill_with(zeros, Scalar(0.0));
  Tensor none;
  normalize_backward(false, grad_output, input, zeros, mean_square, weight, Tensor(), dim, eps,
                     grad_input, grad_weight, none);
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
      return loops.backward_rows(p, first, last, eps, at(g.data(), element), at(g_variance, group),
                                 at(y.data(), element), at(spread.data(), group),
                                 at(out.data(), element), groups.scratch(first, last).data());
    }
    loops.backward(p, first, last, eps, at(g.data(), element), at(g_variance, group),
                   at(y.data(), element), at(spread.data(), group), at(out.data(), element));
  });
  out.deliver();
}

}  // namespace ops

}  // namespace flambeau
