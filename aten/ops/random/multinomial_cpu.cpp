// multinomial on CPU.
// Formula: without replacement: the categories with the largest weight / e, e exponentially
// distributed, which is a draw in proportion to the weights. With replacement: inversion of the
// cumulative distribution by binary search, one double per sample.
// Accumulates in: the dtype; half types round e and the quotient (as tensors of their dtype would),
// and sum in float32.
// NaN, infinity: NaN, infinite or negative weights raise RuntimeError.
// Error: none: draw for draw PyTorch's after the same seed.
// Source: Efraimidis & Spirakis 2006.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "aten/core/tensor_text.h"
#include "aten/cpu/generator.h"
#include "aten/ops/random/draw_target.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::ops {
namespace {

// Both questions are asked of all weights without a branch, so that the loop is vectorised; which
// weight is wrong is looked for only when one is.
template <typename T>
void check_weights(const T* weights, int64_t rows, int64_t categories) {
  using Value = accumulate_t<T>;
  const auto usable = [](Value w) {
    return (w >= 0) & (w < std::numeric_limits<Value>::infinity());
  };
  for (int64_t row = 0; row < rows; ++row, weights += categories) {
    int unusable = 0, positive = 0;
#pragma omp simd reduction(| : unusable, positive)
    for (int64_t c = 0; c < categories; ++c) {
      const Value weight = static_cast<Value>(weights[c]);
      unusable |= usable(weight) ? 0 : 1;
      positive |= weight > 0 ? 1 : 0;
    }
    for (int64_t c = 0; unusable != 0 && c < categories; ++c) {
      const Value weight = static_cast<Value>(weights[c]);
      check(usable(weight), "multinomial: expected finite weights of 0 or more, got ", weight,
            " at [", row, ", ", c, "]");
    }
    check(positive != 0, "multinomial: expected a positive weight in each row, got none in row ",
          row);
  }
}

// A category and the size of its race against the others.
template <typename Value>
struct Entry {
  Value value;
  int64_t index;
};

template <typename Value>
bool precedes(const Entry<Value>& a, const Entry<Value>& b) {
  return (a.value != a.value && b.value == b.value) || a.value > b.value;
}

// The best `samples` entries come first. Which of equal entries do is the library's choice, made
// with the same algorithms as in topk.
template <typename Value>
void select_best(std::vector<Entry<Value>>& entries, int64_t samples) {
  const auto first = entries.begin();
  const auto n = static_cast<int64_t>(entries.size());
  if (samples == 1) {
    std::iter_swap(first, std::min_element(first, entries.end(), precedes<Value>));
  } else if (samples * 64 <= n) {
    std::partial_sort(first, first + samples, entries.end(), precedes<Value>);
  } else {
    std::nth_element(first, first + samples - 1, entries.end(), precedes<Value>);
    std::sort(first, first + samples - 1, precedes<Value>);
  }
}

template <typename T>
void draw_distinct(CpuGenerator& source, const T* weights, int64_t rows, int64_t categories,
                   int64_t samples, int64_t* out) {
  using Value = accumulate_t<T>;
  // All exponentials are drawn before any row is decided: the order of draws is row-major.
  std::vector<Entry<Value>> entries(static_cast<size_t>(categories));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < categories; ++c) {
      const T race = static_cast<T>(-std::log1p(-source.uniform_double()));
      const T quotient =
          static_cast<Value>(weights[row * categories + c]) / static_cast<Value>(race);
      entries[static_cast<size_t>(c)] = {quotient, c};
    }
    select_best(entries, samples);
    for (int64_t s = 0; s < samples; ++s)
      out[row * samples + s] = entries[static_cast<size_t>(s)].index;
  }
}

template <typename T>
void draw_repeatedly(CpuGenerator& source, const T* weights, int64_t rows, int64_t categories,
                     int64_t samples, int64_t* out) {
  using Value = accumulate_t<T>;
  std::vector<Value> cumulative(static_cast<size_t>(categories));
  for (int64_t row = 0; row < rows; ++row) {
    Value sum = 0;
    for (int64_t c = 0; c < categories; ++c) {
      sum += static_cast<Value>(weights[row * categories + c]);
      cumulative[static_cast<size_t>(c)] = sum;
    }
    Value* const values = cumulative.data();
#pragma omp simd
    for (int64_t c = 0; c < categories; ++c) values[c] /= sum;
    cumulative.back() = 1;  // whatever the rounding
    for (int64_t s = 0; s < samples; ++s) {
      const double uniform = source.uniform_double();
      const auto at = std::partition_point(cumulative.begin(), cumulative.end(), [&](Value c) {
        return static_cast<double>(c) < uniform;
      });
      out[row * samples + s] = at - cumulative.begin();
    }
  }
}

}  // namespace

void multinomial_cpu(const Tensor& self, int64_t num_samples, bool replacement,
                     GeneratorImpl* generator, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor weights = contiguous_tensor(self);
  const int64_t categories = self.size(-1), rows = self.numel() / std::max<int64_t>(categories, 1);
  dispatch_floating(self.dtype(), "multinomial", [&]<typename T>() {
    const T* data = weights.data_as<T>();
    check(categories > 0, "multinomial: expected at least one category, got weights ", self);
    check_weights(data, rows, categories);
    CpuGenerator& source = cpu_generator_or_default(generator);
    const std::lock_guard lock(source.mutex());
    // One sample is drawn alike in both cases.
    const bool distinct = !replacement || num_samples == 1;
    (distinct ? draw_distinct<T> : draw_repeatedly<T>)(source, data, rows, categories, num_samples,
                                                       out.data_as<int64_t>());
  });
}

}  // namespace flambeau::ops
