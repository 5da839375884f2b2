// Shape rules of the factories, with the checks of their arguments.
#include <cmath>
#include <limits>

#include "aten/core/memory_format.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "torchgen_out/aten/factory_kernels.h"

namespace flambeau::shape {
namespace {

ScalarType natural_dtype(const Scalar& value) {
  if (value.is_bool()) return ScalarType::Bool;
  if (value.is_integral(false)) return ScalarType::Int64;
  return value.is_complex() ? default_complex_dtype() : default_dtype();
}

bool is_finite(const Scalar& value) { return std::isfinite(value.to_double()); }

}  // namespace

void empty(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Device> device,
           std::optional<MemoryFormat> memory_format, OutSpec* out) {
  factory(size, dtype, device, out);
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  check(
      format != MemoryFormat::Preserve,
      "empty: expected contiguous_format, channels_last or channels_last_3d, got preserve_format");
  out->strides = strides_of_format(size, format);
}

void empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<ScalarType> dtype,
                   std::optional<Device> device, OutSpec* out) {
  check(size.size() == stride.size(), LengthMismatch{size, stride});
  factory(size, dtype, device, out);
  out->strides = DimVector(stride);
}

void full(IntArrayRef size, const Scalar& fill_value, std::optional<ScalarType> dtype,
          std::optional<Device> device, OutSpec* out) {
  factory(size, dtype.value_or(natural_dtype(fill_value)), device, out);
}

void arange(const Scalar& start, const Scalar& end, const Scalar& step,
            std::optional<ScalarType> dtype, std::optional<Device> device, OutSpec* out) {
  bool whole = start.is_integral(true) && end.is_integral(true) && step.is_integral(true);
  const ScalarType type = dtype.value_or(whole ? ScalarType::Int64 : default_dtype());
  // As in PyTorch: bounds are cut to whole numbers for int64 alone.
  whole = whole || type == ScalarType::Int64;
  check(!step.is_zero(), "expected a step other than 0 (step must be nonzero), got ", step);
  check_value(!whole || step.to_int64() != 0,
              "expected a step other than 0 (step must be nonzero), got ", step);
  check(is_finite(start) && is_finite(end), "expected finite bounds (unsupported range), got ",
        start, " and ", end);
  const bool up = step.to_double() > 0;
  int64_t count = 0;
  if (whole) {
    const int64_t first = start.to_int64(), last = end.to_int64(), by = step.to_int64();
    check(up ? last >= first : last <= first,
          "expected bounds in the step's direction, got some inconsistent with step sign");
    int64_t span = 0;
    const bool overflow = __builtin_sub_overflow(last, first, &span) ||
                          (by == -1 && span == std::numeric_limits<int64_t>::min());
    check(!overflow,
          "expected a range of less than 2^63 elements (invalid size, possible overflow), got ",
          first, " to ", last);
    count = span / by + (span % by != 0);
  } else {
    const double span = end.to_double() - start.to_double();
    check(up ? span >= 0 : span <= 0,
          "expected bounds in the step's direction, got some inconsistent with step sign");
    const double n = std::ceil(span / step.to_double());
    check(n < 0x1p62,
          "expected a range of less than 2^62 elements (invalid size, possible overflow), got ", n);
    count = static_cast<int64_t>(n);
  }
  factory(IntArrayRef(count), type, device, out);
}

void linspace(const Scalar& start, const Scalar& end, int64_t steps,
              std::optional<ScalarType> dtype, std::optional<Device> device, OutSpec* out) {
  check(steps >= 0, "expected steps of 0 or more, got ", steps);
  const bool is_complex = start.is_complex() || end.is_complex();
  factory(IntArrayRef(steps),
          dtype.value_or(is_complex ? default_complex_dtype() : default_dtype()), device, out);
}

void eye(int64_t n, int64_t m, std::optional<ScalarType> dtype, std::optional<Device> device,
         OutSpec* out) {
  check(n >= 0, "eye: expected n >= 0, got ", n);
  check(m >= 0, "eye: expected m >= 0, got ", m);
  const int64_t sizes[] = {n, m};
  factory(sizes, dtype, device, out);
}

}  // namespace flambeau::shape
