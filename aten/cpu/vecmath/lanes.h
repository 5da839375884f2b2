#pragma once
// Sixteen floats as one value. AVX-512 splits a number into mantissa and exponent, and scales it by
// a power of two, by one instruction each, which compilers do not use for scalar code; functions of
// Lanes (lane_functions.h) use them. The builtins are GCC's. Elsewhere no function takes Lanes, and
// loops over scalars do the work.
#include <stdint.h>

#include "aten/cpu/vecmath/basic.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define FLAMBEAU_HAS_LANES
#endif

// The type of an element; T itself where T is a number.
template <typename T>
struct ElementOf {
  using type = T;
};
template <Lanewise T>
struct ElementOf<T> {
  using type = __typeof__(T{}[0] + 0);
};
template <typename T>
using element_t = typename ElementOf<T>::type;

#ifdef FLAMBEAU_HAS_LANES

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t LaneBits __attribute__((vector_size(64)));
typedef float StoredLanes __attribute__((vector_size(64), aligned(4), may_alias));
using LaneMask = uint16_t;  // a bit for each lane

inline constexpr int64_t kLanes = 16;
inline constexpr LaneMask kAllLanes = 0xffff;
inline constexpr int kRoundToNearest = 4;    // "as the control register has it"
inline constexpr int kNotLess = 5;           // true for NaN
inline constexpr int kFromThreeFourths = 3;  // mantissas in [0.75, 1.5)
inline constexpr int kNegativeIsNan = 2 << 2;

[[gnu::always_inline]] inline Lanes spread(float x) { return x - Lanes{}; }  // -0 stays
[[gnu::always_inline]] inline LaneBits bits_of(Lanes x) { return reinterpret_cast<LaneBits>(x); }
[[gnu::always_inline]] inline Lanes from_bits(LaneBits x) { return reinterpret_cast<Lanes>(x); }

[[gnu::always_inline]] inline Lanes madd(Lanes a, Lanes b, Lanes c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline Lanes madd(Lanes a, Lanes b, float c) {
  return madd(a, b, spread(c));
}
[[gnu::always_inline]] inline Lanes madd(Lanes a, float b, Lanes c) {
  return madd(a, spread(b), c);
}
[[gnu::always_inline]] inline Lanes madd(Lanes a, float b, float c) {
  return madd(a, spread(b), spread(c));
}
[[gnu::always_inline]] inline Lanes madd(float a, Lanes b, float c) {
  return madd(spread(a), b, spread(c));
}

[[gnu::always_inline]] inline Lanes abs(Lanes x) { return from_bits(bits_of(x) & 0x7fffffff); }
// `magnitude` has no sign yet.
[[gnu::always_inline]] inline Lanes with_sign_of(Lanes x, Lanes magnitude) {
  return from_bits(bits_of(magnitude) | (bits_of(x) & ~0x7fffffff));
}
[[gnu::always_inline]] inline Lanes sqrt(Lanes x) {
  return __builtin_ia32_sqrtps512_mask(x, x, kAllLanes, kRoundToNearest);
}
// The nearer of x and a limit; NaN stays, as the instruction returns its second argument then.
[[gnu::always_inline]] inline Lanes at_most(Lanes x, float limit) {
  return __builtin_ia32_minps512_mask(spread(limit), x, x, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline Lanes at_least(Lanes x, float limit) {
  return __builtin_ia32_maxps512_mask(spread(limit), x, x, kAllLanes, kRoundToNearest);
}
[[gnu::always_inline]] inline LaneMask not_less(Lanes x, float limit) {
  return static_cast<LaneMask>(
      __builtin_ia32_cmpps512_mask(x, spread(limit), kNotLess, kAllLanes, kRoundToNearest));
}

// value * 2^k for integers k, rounded once: denormals and overflow come out right.
[[gnu::always_inline]] inline Lanes scale(Lanes value, Lanes k) {
  return __builtin_ia32_scalefps512_mask(value, k, value, kAllLanes, kRoundToNearest);
}
// x = 2^k m, m in [0.75, 1.5). k of +-0 is -infinity, that of infinity is infinity, and m is +-1
// there; of other negative numbers and of NaN both are NaN.
struct ScaledLanes {
  Lanes k;
  Lanes m;
};
[[gnu::always_inline]] inline Lanes exponent_of(Lanes x) {
  return __builtin_ia32_getexpps512_mask(x, x, kAllLanes, kRoundToNearest);
}
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

#else

struct Lanes {};  // no function takes it

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
