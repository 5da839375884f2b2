// Connectionist temporal classification on CPU.
// Formula:
//   with the target interleaved by blanks, l' of length 2 S + 1, the forward variables are
//     alpha[t, s] = log_probs[t, l'_s] + ln(sum of exp alpha[t - 1, s - 2 .. s]),
//   where s - 2 counts only if l'_s is not a blank and differs from l'_(s-2); the loss is
//   -ln(e^alpha[T - 1, 2 S] + e^alpha[T - 1, 2 S - 1]). The backward variables beta run the other
//   way; the gradient is exp(log_probs) - sum of e^(alpha + beta) over a class / probability.
// Accumulates in: logarithms in the dtype.
// NaN, infinity: a target that no path reaches gives inf, and NaN gradients unless zero_infinity.
// Error: 1e-5 relative in float32 for T up to 1000, tested against double.
// Source: Graves et al. 2006, eq. 6-8 and 10-16.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/loss_kernels.h"

namespace flambeau::ops {
namespace {

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <typename T>
T log_sum(T a, T b, T c) {
  const T top = std::max({a, b, c});
  if (top == kNever<T>) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

// Where each target begins in the targets' memory.
std::vector<int64_t> target_starts(const Tensor& targets, IntArrayRef lengths) {
  std::vector<int64_t> starts;
  int64_t at = 0;
  for (size_t n = 0; n < lengths.size(); ++n) {
    starts.push_back(targets.dim() == 1 ? at : static_cast<int64_t>(n) * targets.size(1));
    at += lengths[n];
  }
  return starts;
}

// One sequence: its log probabilities by time and class, and its target between blanks.
template <typename T>
struct Sequence {
  const T* log_probs;
  int64_t time_stride, times, states, blank;
  const int64_t* target;

  int64_t label(int64_t s) const { return s % 2 == 0 ? blank : target[s / 2]; }
  bool may_skip(int64_t s) const { return s % 2 == 1 && s >= 2 && label(s) != label(s - 2); }
  T at(int64_t t, int64_t s) const { return log_probs[t * time_stride + label(s)]; }
};

template <typename T>
T forward_variables(const Sequence<T>& q, T* alpha, int64_t width) {
  std::fill_n(alpha, q.states, kNever<T>);
  if (q.times == 0) return q.states == 1 ? T(0) : -kNever<T>;
  alpha[0] = q.at(0, 0);
  if (q.states > 1) alpha[1] = q.at(0, 1);
  for (int64_t t = 1; t < q.times; ++t) {
    const T* was = alpha + (t - 1) * width;
    T* now = alpha + t * width;
    for (int64_t s = 0; s < q.states; ++s) {
      const T one = s >= 1 ? was[s - 1] : kNever<T>, two = q.may_skip(s) ? was[s - 2] : kNever<T>;
      now[s] = log_sum(was[s], one, two) + q.at(t, s);
    }
  }
  const T* last = alpha + (q.times - 1) * width;
  const T before = q.states > 1 ? last[q.states - 2] : kNever<T>;
  return -log_sum(last[q.states - 1], before, kNever<T>);
}

// Adds e^(alpha + beta) of each time and state to its class, in logarithms.
template <typename T>
void collect(const Sequence<T>& q, const T* alpha, int64_t width, T* totals, int64_t classes) {
  std::vector<T> beta(static_cast<size_t>(q.states), kNever<T>), next;
  for (int64_t t = q.times - 1; t >= 0; --t) {
    next = beta;
    for (int64_t s = q.states - 1; s >= 0; --s) {
      const auto at = static_cast<size_t>(s);
      T sum = t == q.times - 1 && s >= q.states - 2 ? T(0) : kNever<T>;
      if (t < q.times - 1) {
        const T one = s + 1 < q.states ? next[at + 1] : kNever<T>;
        const T two = s + 2 < q.states && q.may_skip(s + 2) ? next[at + 2] : kNever<T>;
        sum = log_sum(next[at], one, two);
      }
      beta[at] = sum == kNever<T> ? sum : sum + q.at(t, s);
      T& total = totals[t * classes + q.label(s)];
      total = log_sum(total, alpha[t * width + s] + beta[at], kNever<T>);
    }
  }
}

template <typename T>
Sequence<T> sequence_of(const Tensor& log_probs, const Tensor& targets, int64_t n, int64_t start,
                        int64_t times, int64_t length, int64_t blank) {
  const int64_t classes = log_probs.size(2);
  return {log_probs.data_as<T>() + n * classes,
          log_probs.size(1) * classes,
          times,
          2 * length + 1,
          blank,
          targets.data_as<int64_t>() + start};
}

}  // namespace

void ctc_loss_cpu(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                  IntArrayRef target_lengths, int64_t blank, bool, Tensor& loss,
                  Tensor& log_alpha) {
  const Tensor rows = contiguous_tensor(log_probs);
  const Tensor labels = contiguous_tensor(cast_tensor(targets, ScalarType::Int64));
  const std::vector<int64_t> starts = target_starts(labels, target_lengths);
  for (int64_t i = 0; i < labels.numel(); ++i) {
    const int64_t label = labels.data_as<int64_t>()[i];
    const bool used = labels.dim() == 1 ||
                      i % labels.size(1) < target_lengths[static_cast<size_t>(i / labels.size(1))];
    check(!used || (label >= 0 && label < rows.size(2)), "ctc_loss: expected targets below ",
          rows.size(2), ", got ", label);
  }
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      rows.dtype(), "ctc_loss_cpu", [&]<typename T>() {
        const int64_t width = log_alpha.size(2), plane = log_alpha.size(1) * width;
        parallel_for(0, rows.size(1), 16 * plane, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            const auto at = static_cast<size_t>(n);
            const auto q = sequence_of<T>(rows, labels, n, starts[at], input_lengths[at],
                                          target_lengths[at], blank);
            T* alpha = log_alpha.data_as<T>() + n * plane;
            std::fill_n(alpha, plane, kNever<T>);
            std::vector<T> none(static_cast<size_t>(q.states));  // without any time there is no row
            loss.data_as<T>()[n] = forward_variables(q, plane == 0 ? none.data() : alpha, width);
          }
        });
      });
}

void ctc_loss_backward_cpu(const Tensor& grad_output, const Tensor& log_probs,
                           const Tensor& targets, IntArrayRef input_lengths,
                           IntArrayRef target_lengths, const Tensor& loss, const Tensor& log_alpha,
                           int64_t blank, bool zero_infinity, Tensor& out) {
  const Tensor rows = contiguous_tensor(log_probs), grads = contiguous_tensor(grad_output);
  const Tensor labels = contiguous_tensor(cast_tensor(targets, ScalarType::Int64));
  const std::vector<int64_t> starts = target_starts(labels, target_lengths);
  const Tensor losses = contiguous_tensor(loss), alphas = contiguous_tensor(log_alpha);
  fill_with(out, Scalar(0));
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      rows.dtype(), "ctc_loss_cpu", [&]<typename T>() {
        const int64_t width = log_alpha.size(2), plane = log_alpha.size(1) * width;
        const int64_t classes = rows.size(2), batch = rows.size(1);
        parallel_for(0, batch, 32 * plane, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            const auto at = static_cast<size_t>(n);
            const T nll = losses.data_as<T>()[n], scale = grads.data_as<T>()[n];
            if (zero_infinity && nll == -kNever<T>) continue;
            const auto q = sequence_of<T>(rows, labels, n, starts[at], input_lengths[at],
                                          target_lengths[at], blank);
            std::vector<T> totals(static_cast<size_t>(q.times * classes), kNever<T>);
            collect(q, alphas.data_as<T>() + n * plane, width, totals.data(), classes);
            for (int64_t t = 0; t < q.times; ++t) {
              for (int64_t c = 0; c < classes; ++c) {
                const T lp = q.log_probs[t * q.time_stride + c];
                const T total = totals[static_cast<size_t>(t * classes + c)];
                const T share = std::exp(total + nll - lp);
                out.data_as<T>()[(t * batch + n) * classes + c] = (std::exp(lp) - share) * scale;
              }
            }
          }
        });
      });
}

}  // namespace flambeau::ops

namespace flambeau::shape {
namespace {

// The longest target; `total` counts all targets.
int64_t check_lengths(IntArrayRef input_lengths, IntArrayRef target_lengths, int64_t times,
                      int64_t batch, int64_t& total) {
  check(int64_t(input_lengths.size()) == batch, "ctc_loss: expected ", batch,
        " input_lengths, got ", input_lengths);
  check(int64_t(target_lengths.size()) == batch, "ctc_loss: expected ", batch,
        " target_lengths, got ", target_lengths);
  int64_t longest = 0;
  for (size_t n = 0; n < input_lengths.size(); ++n) {
    check(input_lengths[n] >= 0 && input_lengths[n] <= times,
          "ctc_loss: expected input_lengths from 0 to ", times, ", got ", input_lengths[n]);
    check(target_lengths[n] >= 0, "ctc_loss: expected target_lengths from 0 on, got ",
          target_lengths[n]);
    total = sum_of("ctc_loss", total, target_lengths[n]);
    longest = std::max(longest, target_lengths[n]);
  }
  return longest;
}

void check_targets(const Tensor& targets, int64_t batch, int64_t longest, int64_t total) {
  check(targets.dtype() == ScalarType::Int64 || targets.dtype() == ScalarType::Int32,
        "ctc_loss: expected targets of type Long or Int, got ", pytorch_name_of(targets.dtype()));
  const bool joined = targets.dim() == 1 && targets.size(0) == total;
  const bool padded = targets.dim() == 2 && targets.size(0) == batch && targets.size(1) >= longest;
  check(joined || padded, "ctc_loss: expected targets of size (", total, ") or (", batch,
        ", at least ", longest, "), got ", targets);
}

}  // namespace

void ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
              IntArrayRef target_lengths, int64_t blank, OutSpec* out) {
  check(log_probs.numel() > 0, "ctc_loss: expected log_probs with elements, got ", log_probs);
  check(log_probs.dim() == 3, "ctc_loss: expected log_probs (T, N, C), got ", log_probs);
  const int64_t times = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  check(blank >= 0 && blank < classes, "ctc_loss: expected blank below ", classes, ", got ", blank);
  int64_t total = 0;
  const int64_t longest = check_lengths(input_lengths, target_lengths, times, batch, total);
  check_targets(targets, batch, longest, total);
  if (log_probs.dtype() != ScalarType::Float32 && log_probs.dtype() != ScalarType::Float64)
    fail_dtype("ctc_loss_cpu", log_probs.dtype());
  out[0] = {{batch}, {}, log_probs.dtype(), log_probs.device()};
  out[1] = {{batch, times, 1 + product_of("ctc_loss", 2, longest)},
            {},
            log_probs.dtype(),
            log_probs.device()};
}

void ctc_loss_backward(const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets,
                       IntArrayRef input_lengths, IntArrayRef target_lengths, const Tensor& loss,
                       const Tensor& log_alpha, int64_t blank, OutSpec* out) {
  OutSpec forward[2];
  ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, forward);
  check_grad_output("ctc_loss_backward", grad_output, forward[0].sizes);
  const auto check_saved = [&](const Tensor& t, const OutSpec& spec, const char* name) {
    check(t.sizes() == spec.sizes.ref() && t.dtype() == spec.dtype, "ctc_loss_backward: expected ",
          name, " of shape ", spec.sizes, " and type ", spec.dtype, ", got ", t);
  };
  check_saved(grad_output, forward[0], "grad_output");
  check_saved(loss, forward[0], "loss");
  check_saved(log_alpha, forward[1], "log_alpha");
  like(log_probs, out);
}

}  // namespace flambeau::shape
