// Random integers and permutations on CPU.
// Formula: a draw modulo the size of the range, of 64 bits where the range has 2^28 numbers or
// more, else of 32. The bias of the modulo is below 2^-4 and 2^-36 of the probability; PyTorch has
// it as well.
// Accumulates in: integers of 64 bits.
// NaN, infinity: none: no draw is NaN or infinite.
// Error: none: number for number those of PyTorch after the same seed.
// Source: by definition.
#include <bit>
#include <limits>
#include <utility>

#include "aten/cpu/generator.h"
#include "aten/ops/random/draw_target.h"
#include "torchgen_out/aten/random_kernels.h"

namespace flambeau::ops {
namespace {

constexpr int64_t kBlock = 512;

// Bits of the significand of a floating type.
template <typename T>
constexpr int kDigits = std::is_same_v<T, Half>       ? 11
                        : std::is_same_v<T, BFloat16> ? 8
                                                      : std::numeric_limits<T>::digits;

// Up to this every whole number is one of T's.
template <typename T>
constexpr int64_t last_whole() {
  if constexpr (is_floating_type(scalar_type_of<T>))
    return int64_t{1} << kDigits<T>;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return std::numeric_limits<int64_t>::max();
  else
    return std::numeric_limits<T>::max();
}

// Whether `value` lies between T's smallest and largest number.
template <typename T>
constexpr bool in_range(int64_t value) {
  if constexpr (std::is_same_v<T, Half>)
    return value >= -65504 && value <= 65504;
  else if constexpr (is_floating_type(scalar_type_of<T>))
    return true;
  else if constexpr (is_bool<T>)
    return value == 0 || value == 1;
  else
    return std::in_range<T>(value);
}

struct IntegerRange {
  uint64_t size;   // 0: all 2^64
  uint64_t first;  // modulo 2^64
  bool wide;       // draws of 64 bits
};

template <typename T>
T element_of(uint64_t bits) {
  const auto value = static_cast<int64_t>(bits);
  if constexpr (is_bool<T>)
    return value != 0;
  else
    return static_cast<T>(value);
}

template <typename Raw, typename T>
void draw(CpuGenerator& source, T* out, int64_t n, const IntegerRange& range) {
  Raw raw[kBlock];
  const Raw size = static_cast<Raw>(range.size);
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t count = std::min(kBlock, n - start);
    if constexpr (sizeof(Raw) == 8)
      source.fill_raw64(raw, count);
    else
      source.fill_raw(raw, count);
    for (int64_t i = 0; i < count; ++i) {
      out[start + i] = element_of<T>((size ? raw[i] % size : raw[i]) + range.first);
    }
  }
}

template <typename T>
void fill(const Tensor& self, GeneratorImpl* generator, const IntegerRange& range) {
  if (self.numel() == 0) return;
  CpuGenerator& source = cpu_generator_or_default(generator);
  const std::lock_guard lock(source.mutex());
  const DrawTarget target(self);
  T* out = target.buffer().data_as<T>();
  range.wide ? draw<uint64_t>(source, out, self.numel(), range)
             : draw<uint32_t>(source, out, self.numel(), range);
  target.commit();
}

// The distance of neighbours in T at |value|, where they are further apart than 1.
template <typename T>
int64_t spacing_at(int64_t value) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  return int64_t{1} << (std::bit_width(magnitude) - kDigits<T>);
}

// Bounds that T can't hold move inwards, else rounding would leave the range.
template <typename T>
int64_t whole_from(int64_t from) {
  if constexpr (is_floating_type(scalar_type_of<T>)) {
    if (from == std::numeric_limits<int64_t>::max()) return from;
    const auto next = static_cast<int64_t>(static_cast<T>(from + 1));
    if (next < from) return next + spacing_at<T>(from + 1);
  }
  return from;
}

template <typename T>
int64_t whole_to(int64_t to) {
  if constexpr (is_floating_type(scalar_type_of<T>)) {
    const auto last = static_cast<int64_t>(static_cast<T>(to - 1));
    if (last >= to) return last - spacing_at<T>(to - 1);
  }
  return to;
}

// `last`: inclusive. `name` as in PyTorch's message.
template <typename T>
IntegerRange range_between(int64_t from, int64_t last, const char* name) {
  const char* type = pytorch_name_of(scalar_type_of<T>);
  check(in_range<T>(from), "expected from within the range of ", type, ", got ", from,
        " (from is out of bounds)");
  check(in_range<T>(last), "expected ", name, " within the range of ", type, ", got ", last, " (",
        name, " is out of bounds)");
  const uint64_t size = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  return {size, static_cast<uint64_t>(from), size >= (uint64_t{1} << 28) || size == 0};
}

}  // namespace

void random_cpu(Tensor& self, GeneratorImpl* generator) {
  dispatch_ordered(self.dtype(), "random_kernel_cpu", [&]<typename T>() {
    const auto size = static_cast<uint64_t>(last_whole<T>()) + 1;
    fill<T>(self, generator, {size, 0, sizeof(T) == 8});
  });
}

void random_from_cpu(Tensor& self, int64_t from_, std::optional<int64_t> to,
                     GeneratorImpl* generator) {
  check(!self.is_complex(), "random_: expected a dtype of integers, floating numbers or bool, got ",
        self.dtype());
  dispatch_ordered(self.dtype(), "random_from_to_kernel_cpu", [&]<typename T>() {
    const int64_t from = whole_from<T>(from_);
    if (to) {
      check(from_ < *to, "random_: expected from < to, got from=", from_, " and to=", *to);
      const int64_t end = whole_to<T>(*to);
      check(from < end, "random_: expected from < to when rounded to ",
            pytorch_name_of(self.dtype()), " too, got from=", from, " and to=", end);
      fill<T>(self, generator, range_between<T>(from, end - 1, "to - 1"));
    } else if (from_ == std::numeric_limits<int64_t>::min()) {
      check(sizeof(T) == 8 || std::is_same_v<T, float> || std::is_same_v<T, BFloat16>,
            "random_: expected int64, float64, float32 or bfloat16 for the full range, got ",
            self.dtype());
      fill<T>(self, generator, {0, 0, true});
    } else {
      const int64_t last = last_whole<T>();
      check(from <= last, "random_ expects 'from' to be at most ", last, ", but got from=", from);
      fill<T>(self, generator, range_between<T>(from, last, "to"));
    }
  });
}

void random_to_cpu(Tensor& self, int64_t to, GeneratorImpl* generator) {
  random_from_cpu(self, 0, to, generator);
}

void randperm_cpu(int64_t n, GeneratorImpl* generator, std::optional<ScalarType>,
                  std::optional<Layout>, std::optional<Device>, std::optional<bool>, Tensor& out) {
  if (n == 0) return;
  const Tensor order =
      out.dtype() == ScalarType::Int64 ? out : empty_tensor({n}, ScalarType::Int64);
  CpuGenerator& source = cpu_generator_or_default(generator);
  {
    const std::lock_guard lock(source.mutex());
    source.permutation(order.data_as<int64_t>(), n);
  }
  if (!order.is_same(out)) copy_into(out, order);
}

}  // namespace flambeau::ops
