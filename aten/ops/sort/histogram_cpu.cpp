// searchsorted, bucketize, bincount and histc on CPU.
// Formula: searchsorted: the number of elements below (right: at or below) a value; bincount: the
// count, or sum of weights, of each integer; histc: bin = floor((x - min) * bins / (max - min)),
// and the last bin includes max.
// Accumulates in: counts are integers, sums of weights are kept in the weights' type; histc of half
// types computes in float32.
// NaN, infinity: histc does not count NaN and what lies outside [min, max]; searchsorted places NaN
// last.
// Error: counts are exact but for the rounding of bins; weights: n eps of the sum of magnitudes.
// Source: by definition.
#include <algorithm>
#include <cmath>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/promotion.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::ops {
namespace {

// For each of `count` <= kTogether values: how many elements come before its place. NaN is the
// largest in a sequence, and goes to the end. Side by side and without branches, which no processor
// would predict, so that reads of one search do not wait for those of another.
constexpr int64_t kTogether = 16;

template <bool kRight, typename T>
void search(const T* sequence, int64_t n, const T* values, int64_t count, int64_t* places) {
  T wanted[kTogether];
  const T* first[kTogether];  // the place is here or at one of the `width` after it
#pragma GCC unroll 16
  for (int64_t j = 0; j < kTogether; ++j) {
    wanted[j] = values[j < count ? j : 0];
    first[j] = sequence;
  }
  const auto is_before = [](T element, T value) {
    return kRight ? element <= value : element < value;
  };
  int64_t width = n;
  for (; width > 1; width -= width / 2) {
    const int64_t half = width / 2;
#pragma GCC unroll 16
    for (int64_t j = 0; j < kTogether; ++j) {
      const T* const next = first[j] + half;
      // An unpredictable condition becomes a conditional move.
      const bool passes = is_before(next[-1], wanted[j]);
      first[j] = __builtin_expect_with_probability(passes, 1, 0.5) ? next : first[j];
    }
  }
  for (int64_t j = 0; j < count; ++j) {
    const int64_t place = width == 1 ? first[j] - sequence + is_before(*first[j], wanted[j]) : 0;
    places[j] = wanted[j] == wanted[j] ? place : n;
  }
}

template <typename Weight>
Tensor sum_weights(const Tensor& values, const Weight* weights, int64_t bins) {
  const Tensor sums = zeros_tensor({bins}, scalar_type_of<Weight>);
  Weight* out = sums.data_as<Weight>();
  const int64_t* at = values.data_as<int64_t>();
  const int64_t n = values.numel();
  if (weights) {
    for (int64_t i = 0; i < n; ++i) out[at[i]] += weights[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[at[i]] += Weight(1);
  }
  return sums;
}

struct Range {
  double low;
  double high;
};

// The data's range where the two bounds are equal, widened by 1 where that is a point.
template <typename T>
Range range_of(const Tensor& in, const Scalar& min, const Scalar& max) {
  Range range{min.to_double(), max.to_double()};
  if (range.low == range.high && in.numel() > 0) {
    const T* data = in.data_as<T>();
    bool has_nan = false;
    T low = data[0], high = data[0];
    for (int64_t i = 0; i < in.numel(); ++i) {
      has_nan |= data[i] != data[i];
      low = data[i] < low ? data[i] : low;
      high = data[i] > high ? data[i] : high;
    }
    range = {has_nan ? std::nan("") : static_cast<double>(low),
             has_nan ? std::nan("") : static_cast<double>(high)};
  }
  if (range.low == range.high) range = {range.low - 1, range.high + 1};
  check(std::isfinite(range.low) && std::isfinite(range.high), "histc: expected a finite range, ",
        "got [", range.low, ", ", range.high, "], which is not finite");
  check(range.low < range.high, "histc: expected min below max, got ", range.low, " and ",
        range.high);
  return range;
}

template <typename T>
std::vector<int64_t> count_bins(const Tensor& in, int64_t bins, const Range& range) {
  using Real = accumulate_t<T>;
  std::vector<int64_t> counts(static_cast<size_t>(bins));
  const T* data = in.data_as<T>();
  const Real low = static_cast<Real>(static_cast<T>(range.low)),
             high = static_cast<Real>(static_cast<T>(range.high));
  for (int64_t i = 0; i < in.numel(); ++i) {
    const Real value = static_cast<Real>(data[i]);
    if (!(value >= low && value <= high)) continue;
    const auto bin = static_cast<int64_t>((value - low) * static_cast<Real>(bins) / (high - low));
    ++counts[static_cast<size_t>(std::min(bin, bins - 1))];
  }
  return counts;
}

// The rows of `sequence` in the order of `sorter`.
Tensor in_order(const Tensor& sequence, const Tensor& sorter) {
  const Tensor from = contiguous_tensor(sequence), order = contiguous_tensor(sorter);
  const Tensor sorted = empty_tensor(from.sizes(), from.dtype());
  const int64_t n = from.size(-1);
  const int64_t* at = order.data_as<int64_t>();
  dispatch_by_size(element_size(from.dtype()), "searchsorted", [&]<typename T>() {
    for (int64_t i = 0; i < from.numel(); ++i) {
      check(at[i] >= 0 && at[i] < n, "searchsorted(): expected sorter indices below ", n, ", got ",
            at[i], " (index out of range)");
      sorted.data_as<T>()[i] = from.data_as<T>()[i / n * n + at[i]];
    }
  });
  return sorted;
}

void search_all(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                Tensor& out) {
  const ScalarType common = result_type(sorted_sequence, self);
  const Tensor sequences = contiguous_tensor(cast_tensor(sorted_sequence, common));
  const Tensor values = contiguous_tensor(cast_tensor(self, common));
  const int64_t n = sequences.size(-1), shared = sequences.dim() == 1;
  const int64_t per_sequence = shared ? std::max<int64_t>(values.numel(), 1) : values.size(-1);
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                 ScalarType::BFloat16, ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16,
                 ScalarType::Int32, ScalarType::Int64, ScalarType::UInt16, ScalarType::UInt32,
                 ScalarType::UInt64>(common, "searchsorted_out_cpu", [&]<typename T>() {
    const auto run = [&](auto* places) {
      parallel_for(0, values.numel(), 32, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin, next; i < end; i = next) {
          const int64_t row = shared ? 0 : i / per_sequence;
          next = std::min({end, i + kTogether, (row + 1) * per_sequence});
          const T* sequence = sequences.data_as<T>() + row * n;
          const T* wanted = values.data_as<T>() + i;
          int64_t found[kTogether];
          right ? search<true>(sequence, n, wanted, next - i, found)
                : search<false>(sequence, n, wanted, next - i, found);
          for (int64_t j = i; j < next; ++j)
            places[j] = static_cast<std::remove_reference_t<decltype(*places)>>(found[j - i]);
        }
      });
    };
    out_int32 ? run(out.data_as<int32_t>()) : run(out.data_as<int64_t>());
  });
}

}  // namespace

void searchsorted_cpu(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                      std::optional<std::string_view> side, const Tensor& sorter, Tensor& out) {
  const Tensor sequence = sorter.defined() ? in_order(sorted_sequence, sorter) : sorted_sequence;
  search_all(sequence, self, out_int32, right || side == "right", out);
}

void bucketize_cpu(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                   Tensor& out) {
  search_all(boundaries, self, out_int32, right, out);
}

Tensor bincount_cpu(const Tensor& self, const Tensor& weights, int64_t minlength) {
  if (!is_integral_type(self.dtype(), false)) fail_dtype("bincount_cpu", self.dtype());
  check(minlength >= 0, "bincount: expected minlength >= 0, got ", minlength);
  const char* const kOnly = "bincount: expected integers of 0 or more in 1 dimension";
  check(self.dim() == 1, kOnly);
  if (self.numel() == 0) return zeros_tensor({minlength}, ScalarType::Int64);
  const Tensor values = contiguous_tensor(cast_tensor(self, ScalarType::Int64));
  const int64_t* data = values.data_as<int64_t>();
  int64_t low = data[0], high = data[0];
  for (int64_t i = 0, n = values.numel(); i < n; ++i) {
    low = std::min(low, data[i]);
    high = std::max(high, data[i]);
  }
  check(low >= 0, kOnly);
  check(high < INT64_MAX, "bincount: expected numbers below 2^63 - 1, got ", high);
  check(!weights.defined() || (weights.dim() == 1 && weights.numel() == self.numel()),
        "bincount: expected one weight per element, in 1 dimension, got ", weights, " for ", self);
  const int64_t bins = std::max(minlength, high + 1);
  if (!weights.defined()) return sum_weights<int64_t>(values, nullptr, bins);
  if (weights.dtype() == ScalarType::Float32) {
    return sum_weights(values, contiguous_tensor(weights).data_as<float>(), bins);
  }
  return sum_weights(
      values, contiguous_tensor(cast_tensor(weights, ScalarType::Float64)).data_as<double>(), bins);
}

void histc_cpu(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max,
               Tensor& out) {
  const Tensor in = contiguous_tensor(self);
  dispatch_floating(in.dtype(), "histogram_cpu", [&]<typename T>() {
    const std::vector<int64_t> counts = count_bins<T>(in, bins, range_of<T>(in, min, max));
    for (int64_t b = 0; b < bins; ++b) {
      out.data_as<T>()[b] =
          static_cast<T>(static_cast<accumulate_t<T>>(counts[static_cast<size_t>(b)]));
    }
  });
}

}  // namespace flambeau::ops
