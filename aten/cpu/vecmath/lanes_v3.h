#pragma once
// Eight floats or four doubles as one value, in the instructions of AVX2 and FMA. Included by
// lanes.h. AVX2 has no instruction that scales or splits numbers, so both are integer arithmetic
// with a branch that vectors of ordinary numbers do not take; a lane has the same result on either
// side of it.
#include <stdint.h>

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t LaneBits __attribute__((vector_size(32)));
typedef float StoredLanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef LaneBits LaneMask;  // all bits of a lane
typedef double DoubleLanes __attribute__((vector_size(32)));
typedef long long DoubleLaneBits __attribute__((vector_size(32)));
typedef double StoredDoubleLanes __attribute__((vector_size(32), aligned(8), may_alias));

inline constexpr int64_t kLanes = 8;
inline constexpr int kAllLanes = 0xff;
inline constexpr int kTowardsZero = 11;  // and without a flag for inexact results

// A bit for each lane whose mask (the result of a comparison) is set.
[[gnu::always_inline]] inline int lanes_where(LaneBits mask) {
  return __builtin_ia32_movmskps256(reinterpret_cast<Lanes>(mask));
}

[[gnu::always_inline]] inline Lanes madd(Lanes a, Lanes b, Lanes c) {
  return __builtin_ia32_vfmaddps256(a, b, c);
}
[[gnu::always_inline]] inline Lanes sqrt(Lanes x) { return __builtin_ia32_sqrtps256(x); }
// The smaller of x and a limit; NaN stays, as the instruction returns its second argument then.
[[gnu::always_inline]] inline Lanes at_most(Lanes x, float limit) {
  return __builtin_ia32_minps256(limit - Lanes{}, x);
}
[[gnu::always_inline]] inline LaneMask not_less(Lanes x, float limit) { return ~(x < limit); }
[[gnu::always_inline]] inline bool any_of(LaneMask lanes) { return lanes_where(lanes) != 0; }

[[gnu::always_inline]] inline DoubleLanes madd(DoubleLanes a, DoubleLanes b, DoubleLanes c) {
  return __builtin_ia32_vfmaddpd256(a, b, c);
}
[[gnu::always_inline]] inline DoubleLanes sqrt(DoubleLanes x) {
  return __builtin_ia32_sqrtpd256(x);
}
[[gnu::always_inline]] inline Lanes trunc(Lanes x) {
  return __builtin_ia32_roundps256(x, kTowardsZero);
}
[[gnu::always_inline]] inline DoubleLanes trunc(DoubleLanes x) {
  return __builtin_ia32_roundpd256(x, kTowardsZero);
}
// Whether a lane of a is a number at or above that of b.
[[gnu::always_inline]] inline bool any_at_least(Lanes a, Lanes b) {
  return lanes_where(a >= b) != 0;
}
[[gnu::always_inline]] inline bool any_at_least(DoubleLanes a, DoubleLanes b) {
  return __builtin_ia32_movmskpd256(reinterpret_cast<DoubleLanes>(a >= b)) != 0;
}

// 2^k for integers k from -126 to 127.
[[gnu::always_inline]] inline Lanes normal_power_of_two(LaneBits k) {
  return reinterpret_cast<Lanes>((k + 127) << 23);
}
// value * 2^k for integers |k| < 250: in two steps, so that denormals and overflow come out right.
// The first step is exact. Other lanes are 0.
[[gnu::always_inline]] inline Lanes scale_where(LaneMask lanes, Lanes value, Lanes k) {
  const LaneBits all = __builtin_convertvector(lanes ? k : Lanes{}, LaneBits);
  const LaneBits half = all >> 1;
  return (lanes ? value : Lanes{}) * normal_power_of_two(half) * normal_power_of_two(all - half);
}

// x = 2^k m, m in [0.75, 1.5). k of +-0 is -infinity, that of infinity is infinity, and m is 1
// there; of other negative numbers and of NaN both are NaN.
struct ScaledLanes {
  Lanes k;
  Lanes m;
};
[[gnu::always_inline]] inline ScaledLanes split_normal(LaneBits bits) {
  const LaneBits k = (bits - 0x3f400000) >> 23;  // 0.75
  return {__builtin_convertvector(k, Lanes), reinterpret_cast<Lanes>(bits - (k << 23))};
}
[[gnu::always_inline]] inline ScaledLanes split_any(Lanes x) {
  constexpr float kInfinity = __builtin_inff();
  const Lanes nan = __builtin_nanf("") - Lanes{};
  const LaneBits denormal = x < 0x1p-126f;
  const Lanes raised = denormal ? x * 0x1p54f : x;
  const LaneBits ordinary = (x > 0.0f) & (x < kInfinity);
  const ScaledLanes split =
      split_normal(ordinary ? reinterpret_cast<LaneBits>(raised) : LaneBits{} + 0x3f800000);  // 1
  const Lanes k = denormal ? split.k - 54.0f : split.k;
  const Lanes of_special = x == 0.0f ? -kInfinity - Lanes{} : x == kInfinity ? x : nan;
  return {ordinary ? k : of_special, (x >= 0.0f) ? split.m : nan};
}
[[gnu::always_inline]] inline ScaledLanes split_scale(Lanes x) {
  const LaneBits bits = reinterpret_cast<LaneBits>(x);
  // Positive normal numbers begin at 0x00800000, infinity is 0x7f800000.
  const LaneBits normal = (bits > 0x007fffff) & (bits < 0x7f800000);
  if (lanes_where(normal) != kAllLanes) [[unlikely]]
    return split_any(x);
  return split_normal(bits);
}

// The first n lanes of memory; the others are 0 and are not read or written.
[[gnu::always_inline]] inline LaneBits first_lanes(int64_t n) {
  return LaneBits{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(n);
}
[[gnu::always_inline]] inline Lanes load_part(const float* in, int64_t n) {
  return __builtin_ia32_maskloadps256(reinterpret_cast<const Lanes*>(in), first_lanes(n));
}
[[gnu::always_inline]] inline void store_part(float* out, int64_t n, Lanes x) {
  __builtin_ia32_maskstoreps256(reinterpret_cast<Lanes*>(out), first_lanes(n), x);
}
[[gnu::always_inline]] inline DoubleLaneBits first_double_lanes(int64_t n) {
  return DoubleLaneBits{0, 1, 2, 3} < n;
}
[[gnu::always_inline]] inline DoubleLanes load_part(const double* in, int64_t n) {
  return __builtin_ia32_maskloadpd256(reinterpret_cast<const DoubleLanes*>(in),
                                      first_double_lanes(n));
}
[[gnu::always_inline]] inline void store_part(double* out, int64_t n, DoubleLanes x) {
  __builtin_ia32_maskstorepd256(reinterpret_cast<DoubleLanes*>(out), first_double_lanes(n), x);
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
