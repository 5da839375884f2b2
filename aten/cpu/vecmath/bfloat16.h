#pragma once
// Runs of float rounded to bfloat16: to nearest, ties to even; NaN keeps its sign and upper payload
// bits and becomes quiet, as BFloat16's constructor has it. Two vectors at a time, which leave
// their upper halves in one: a plain loop is narrowed to 16 bits in the middle of the rounding and
// takes half as long again.
#include <stdint.h>

#include "aten/cpu/vecmath/basic.h"
#include "aten/cpu/vecmath/vector_bytes.h"
#include "c10/core/half.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

inline constexpr int64_t kRoundedLanes = kVectorBytes / 4;
typedef float FloatLanes __attribute__((vector_size(kVectorBytes)));
typedef float StoredFloatLanes
    __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));  // of any alignment
typedef uint32_t BitLanes __attribute__((vector_size(kVectorBytes)));
typedef uint16_t HalfLanes __attribute__((vector_size(kVectorBytes)));
typedef uint16_t StoredHalfLanes __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));

// The rounded number in the upper half of each element.
[[gnu::always_inline]] inline HalfLanes rounded_above(const float* in) {
  const FloatLanes x = *reinterpret_cast<const StoredFloatLanes*>(in);
  const BitLanes bits = reinterpret_cast<BitLanes>(x);
  const BitLanes rounded = bits + ((bits >> 16) & 1u) + 0x7fffu;
  return reinterpret_cast<HalfLanes>(x != x ? bits | 0x400000u : rounded);
}
template <int... I>
[[gnu::always_inline]] inline void round_pair(const float* in, c10::BFloat16* out,
                                              std::integer_sequence<int, I...>) {
  const HalfLanes low = rounded_above(in), high = rounded_above(in + kRoundedLanes);
  *reinterpret_cast<StoredHalfLanes*>(out) = __builtin_shufflevector(low, high, (2 * I + 1)...);
}

// Elements of half types that are asked for early: drivers convert the next tile of an array after
// those of others, and prefetchers lose track.
inline constexpr int64_t kWidenedAhead = 2048;

// Back, which is exact. As wide as the instruction set allows, though other loops over memory
// prefer less: half of each vector is what is read.
[[gnu::always_inline]] inline void widen_run(int64_t n, const c10::BFloat16* in, float* out) {
  typedef uint16_t Stored __attribute__((vector_size(kVectorBytes / 2), aligned(2), may_alias));
  int64_t i = 0;
  for (; i + kRoundedLanes <= n; i += kRoundedLanes) {
    __builtin_prefetch(in + i + kWidenedAhead);
    const auto bits = __builtin_convertvector(*reinterpret_cast<const Stored*>(in + i), BitLanes);
    *reinterpret_cast<StoredFloatLanes*>(out + i) = reinterpret_cast<FloatLanes>(bits << 16);
  }
  for (; i < n; ++i) out[i] = in[i];
}

[[gnu::always_inline]] inline void round_run(int64_t n, const float* in, c10::BFloat16* out) {
  constexpr int64_t kPair = 2 * kRoundedLanes;
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair)
    round_pair(in + i, out + i, std::make_integer_sequence<int, static_cast<int>(kPair)>());
  for (; i < n; ++i) out[i] = in[i];
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
