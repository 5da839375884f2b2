// Monotonic alignments of `length` frames with `states` states: each frame stays in the state of
// the frame before or moves to the next one, from the first state to the last. With the
// log-probability p[t][s] of frame t in state s, the sum over alignments follows the forward
// recursion
//   a[t][s] = p[t][s] + log(exp(a[t-1][s]) + exp(a[t-1][s-1])),
// and its derivative is the posterior probability of (t, s), by the recursion from the end
// (Rabiner 1989, "A tutorial on hidden Markov models", section III).
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <vector>

#include "recurrence.h"

namespace recurrence {
namespace {

template <typename T>
constexpr T kImpossible = -std::numeric_limits<T>::infinity();

template <typename T>
T log_sum(T a, T b) {
  const T high = std::max(a, b);
  return high == kImpossible<T> ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> alignment_cpu(const at::Tensor& log_probs) {
  TORCH_CHECK(log_probs.dim() == 3, "alignment: expected shape (batch, length, states), got ",
              log_probs.sizes());
  const int64_t batch = log_probs.size(0), length = log_probs.size(1), states = log_probs.size(2);
  TORCH_CHECK_VALUE(length > 0 && states > 0 && length >= states,
                    "alignment: expected one frame per state at least, got ", length,
                    " frames and ", states, " states");
  at::Tensor prefixes = at::empty_like(log_probs, at::MemoryFormat::Contiguous);
  AT_DISPATCH_FLOATING_TYPES(log_probs.scalar_type(), "alignment", [&] {
    const auto p = log_probs.accessor<scalar_t, 3>();
    auto a = prefixes.accessor<scalar_t, 3>();
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        for (int64_t s = 0; s < states; ++s)
          a[b][0][s] = s == 0 ? p[b][0][0] : kImpossible<scalar_t>;
        for (int64_t t = 1; t < length; ++t) {
          for (int64_t s = 0; s < states; ++s) {
            const scalar_t moved = s > 0 ? a[b][t - 1][s - 1] : kImpossible<scalar_t>;
            a[b][t][s] = p[b][t][s] + log_sum<scalar_t>(a[b][t - 1][s], moved);
          }
        }
      }
    });
  });
  return {prefixes.select(1, length - 1).select(1, states - 1).clone(), prefixes};
}

at::Tensor alignment_backward_cpu(const at::Tensor& grad, const at::Tensor& log_probs,
                                  const at::Tensor& prefixes) {
  const int64_t batch = log_probs.size(0), length = log_probs.size(1), states = log_probs.size(2);
  at::Tensor posterior = at::zeros_like(log_probs, at::MemoryFormat::Contiguous);
  AT_DISPATCH_FLOATING_TYPES(log_probs.scalar_type(), "alignment", [&] {
    const auto p = log_probs.accessor<scalar_t, 3>(), a = prefixes.accessor<scalar_t, 3>();
    const auto g = grad.accessor<scalar_t, 1>();
    auto out = posterior.accessor<scalar_t, 3>();
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(states);
      for (int64_t b = begin; b < end; ++b) {
        const scalar_t total = a[b][length - 1][states - 1];
        if (total == kImpossible<scalar_t>) continue;
        std::vector<scalar_t> rest(count, kImpossible<scalar_t>);  // of frames after t
        rest.back() = 0;
        for (int64_t t = length - 1; t >= 0; --t) {
          std::vector<scalar_t> before(count, kImpossible<scalar_t>);
          for (int64_t s = 0; s < states; ++s) {
            const auto at = static_cast<size_t>(s);
            out[b][t][s] = g[b] * std::exp(a[b][t][s] + rest[at] - total);
            const scalar_t here = p[b][t][s] + rest[at];
            before[at] = log_sum(before[at], here);
            if (s > 0) before[at - 1] = log_sum(before[at - 1], here);
          }
          rest = std::move(before);
        }
      }
    });
  });
  return posterior;
}

}  // namespace recurrence
