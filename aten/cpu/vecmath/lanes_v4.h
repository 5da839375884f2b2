#pragma once
// Sixteen floats or eight doubles as one value, in the instructions of AVX-512. Included by
// lanes.h.
#include <stdint.h>

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t LaneBits __attribute__((vector_size(64)));
typedef float StoredLanes __attribute__((vector_size(64), aligned(4), may_alias));
using LaneMask = uint16_t;  // a bit for each lane
typedef double DoubleLanes __attribute__((vector_size(64)));
typedef long long DoubleLaneBits __attribute__((vector_size(64)));
typedef double StoredDoubleLanes __attribute__((vector_size(64), aligned(8), may_alias));

inline constexpr int64_t kLanes = 16;
inline constexpr LaneMask kAllLanes = 0xffff;
inline constexpr uint8_t kAllDoubleLanes = 0xff;
inline constexpr int kRoundToNearest = 4;    // "as the control register has it"
inline constexpr int kNotLess = 5;           // true for NaN
inline constexpr int kAtLeast = 13;          // false for NaN
inline constexpr int kTowardsZero = 11;      // and without a flag for inexact results
inline constexpr int kFromThreeFourths = 3;  // mantissas in [0.75, 1.5)
inline constexpr int kNegativeIsNan = 2 << 2;

[[gnu::always_inline]] inline Lanes madd(Lanes a, Lanes b, Lanes c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline Lanes sqrt(Lanes x) {
  return __builtin_ia32_sqrtps512_mask(x, x, kAllLanes, kRoundToNearest);
}
// The smaller of x and a limit; NaN stays, as the instruction returns its second argument then.
[[gnu::always_inline]] inline Lanes at_most(Lanes x, float limit) {
  return __builtin_ia32_minps512_mask(limit - Lanes{}, x, x, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline LaneMask not_less(Lanes x, float limit) {
  return static_cast<LaneMask>(
      __builtin_ia32_cmpps512_mask(x, limit - Lanes{}, kNotLess, kAllLanes, kRoundToNearest));
}
[[gnu::always_inline]] inline bool any_of(LaneMask lanes) { return lanes != 0; }

[[gnu::always_inline]] inline DoubleLanes madd(DoubleLanes a, DoubleLanes b, DoubleLanes c) {
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, kAllDoubleLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline DoubleLanes sqrt(DoubleLanes x) {
  return __builtin_ia32_sqrtpd512_mask(x, x, kAllDoubleLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline Lanes trunc(Lanes x) {
  return __builtin_ia32_rndscaleps_mask(x, kTowardsZero, x, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline DoubleLanes trunc(DoubleLanes x) {
  return __builtin_ia32_rndscalepd_mask(x, kTowardsZero, x, kAllDoubleLanes, kRoundToNearest);
}
// Whether a lane of a is a number at or above that of b.
[[gnu::always_inline]] inline bool any_at_least(Lanes a, Lanes b) {
  return __builtin_ia32_cmpps512_mask(a, b, kAtLeast, kAllLanes, kRoundToNearest) != 0;
}
[[gnu::always_inline]] inline bool any_at_least(DoubleLanes a, DoubleLanes b) {
  return __builtin_ia32_cmppd512_mask(a, b, kAtLeast, kAllDoubleLanes, kRoundToNearest) != 0;
}

// value * 2^k for integers k, rounded once: denormals and overflow come out right. Other lanes are
// 0.
[[gnu::always_inline]] inline Lanes scale_where(LaneMask lanes, Lanes value, Lanes k) {
  return __builtin_ia32_scalefps512_mask(value, k, Lanes{}, lanes, kRoundToNearest);
}
[[gnu::always_inline]] inline Lanes exponent_of(Lanes x) {
  return __builtin_ia32_getexpps512_mask(x, x, kAllLanes, kRoundToNearest);
}
// x = 2^k m, m in [0.75, 1.5). k of +-0 is -infinity, that of infinity is infinity, and m is +-1
// there; of other negative numbers and of NaN both are NaN.
struct ScaledLanes {
  Lanes k;
  Lanes m;
};
[[gnu::always_inline]] inline ScaledLanes split_scale(Lanes x) {
  const Lanes m = __builtin_ia32_getmantps512_mask(x, kFromThreeFourths | kNegativeIsNan, x,
                                                   kAllLanes, kRoundToNearest);
  return {exponent_of(x) - exponent_of(m), m};
}

// The first n lanes of memory; the others are 0 and are not read or written.
[[gnu::always_inline]] inline LaneMask first_lanes(int64_t n) {
  return static_cast<LaneMask>((1 << n) - 1);
}
[[gnu::always_inline]] inline Lanes load_part(const float* in, int64_t n) {
  return __builtin_ia32_loadups512_mask(in, Lanes{}, first_lanes(n));
}
[[gnu::always_inline]] inline void store_part(float* out, int64_t n, Lanes x) {
  __builtin_ia32_storeups512_mask(out, x, first_lanes(n));
}
[[gnu::always_inline]] inline DoubleLanes load_part(const double* in, int64_t n) {
  return __builtin_ia32_loadupd512_mask(in, DoubleLanes{}, static_cast<uint8_t>((1 << n) - 1));
}
[[gnu::always_inline]] inline void store_part(double* out, int64_t n, DoubleLanes x) {
  __builtin_ia32_storeupd512_mask(out, x, static_cast<uint8_t>((1 << n) - 1));
}

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
