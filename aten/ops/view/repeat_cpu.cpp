// Places of repeat_interleave on CPU.
// Formula: place i, repeats[i] times.
// Accumulates in: integers.
// NaN, infinity: none: repeats are integers.
// Error: none: exact.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::ops {

Tensor repeat_interleave_cpu(const Tensor& repeats, std::optional<int64_t> output_size) {
  check(repeats.dim() == 1, "repeat_interleave: expected repeats of 1 dimension, got ",
        repeats.dim());
  check(repeats.dtype() == ScalarType::Int32 || repeats.dtype() == ScalarType::Int64,
        "repeat_interleave: expected repeats of dtype int64 or int32, got ", repeats.dtype());
  const Tensor counts = contiguous_tensor(cast_tensor(repeats, ScalarType::Int64));
  const int64_t* const count = counts.data_as<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    check(count[i] >= 0, "repeat_interleave: expected repeats of 0 or more, got ", count[i]);
    total = sum_of("repeat_interleave", total, count[i]);
  }
  check(!output_size || *output_size == total, "repeat_interleave: expected output_size ", total,
        ", got ", output_size.value_or(0));
  const Tensor places = empty_tensor({total}, repeats.dtype());
  const auto fill = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    for (int64_t i = 0; i < counts.numel(); ++i) to = std::fill_n(to, count[i], static_cast<T>(i));
  };
  places.dtype() == ScalarType::Int64 ? fill(places.data_as<int64_t>())
                                      : fill(places.data_as<int32_t>());
  return places;
}

}  // namespace flambeau::ops
