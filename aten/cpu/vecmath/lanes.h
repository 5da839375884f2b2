#pragma once
// Several floats or doubles as one value. Processors split a number into mantissa and exponent,
// scale it by powers of two and bound it by instructions, or few of them, that compilers do not
// find in scalar code; functions of Lanes (lane_functions.h) use them. The builtins are GCC's.
// Elsewhere no function takes Lanes, and loops over scalars do the work.
#include <stdint.h>

#include "aten/cpu/vecmath/basic.h"

#if defined(__GNUC__) && !defined(__clang__)
#if defined(__AVX512F__)
#define FLAMBEAU_HAS_LANES
#include "aten/cpu/vecmath/lanes_v4.h"
#elif defined(__AVX2__) && defined(__FMA__)
#define FLAMBEAU_HAS_LANES
#include "aten/cpu/vecmath/lanes_v3.h"
#endif
#endif

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

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

inline constexpr int64_t kDoubleLanes = kLanes / 2;

[[gnu::always_inline]] inline Lanes spread(float x) { return x - Lanes{}; }  // -0 stays
[[gnu::always_inline]] inline DoubleLanes spread(double x) { return x - DoubleLanes{}; }
[[gnu::always_inline]] inline LaneBits bits_of(Lanes x) { return reinterpret_cast<LaneBits>(x); }
[[gnu::always_inline]] inline Lanes from_bits(LaneBits x) { return reinterpret_cast<Lanes>(x); }

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

[[gnu::always_inline]] inline DoubleLaneBits bits_of(DoubleLanes x) {
  return reinterpret_cast<DoubleLaneBits>(x);
}
[[gnu::always_inline]] inline DoubleLanes from_bits(DoubleLaneBits x) {
  return reinterpret_cast<DoubleLanes>(x);
}
inline constexpr long long kMagnitudeOfDouble = 0x7fffffffffffffff;
[[gnu::always_inline]] inline DoubleLanes abs(DoubleLanes x) {
  return from_bits(bits_of(x) & kMagnitudeOfDouble);
}
[[gnu::always_inline]] inline DoubleLanes with_sign_of(DoubleLanes x, DoubleLanes magnitude) {
  return from_bits(bits_of(magnitude) | (bits_of(x) & ~kMagnitudeOfDouble));
}

[[gnu::always_inline]] inline bool any_lane(DoubleLaneBits lanes) {
  return any_at_least(lanes ? spread(1.0) : DoubleLanes{}, spread(1.0));
}

// Floats as two halves of doubles, and back.
struct DoubleHalves {
  DoubleLanes low;
  DoubleLanes high;
};
typedef float HalfLanes __attribute__((vector_size(sizeof(Lanes) / 2)));
[[gnu::always_inline]] inline DoubleHalves as_doubles(Lanes x) {
  struct Parts {
    HalfLanes low;
    HalfLanes high;
  };
  const Parts parts = __builtin_bit_cast(Parts, x);
  return {__builtin_convertvector(parts.low, DoubleLanes),
          __builtin_convertvector(parts.high, DoubleLanes)};
}
[[gnu::always_inline]] inline Lanes as_floats(DoubleLanes low, DoubleLanes high) {
  struct Parts {
    HalfLanes low;
    HalfLanes high;
  };
  return __builtin_bit_cast(Lanes, (Parts{__builtin_convertvector(low, HalfLanes),
                                          __builtin_convertvector(high, HalfLanes)}));
}

[[gnu::always_inline]] inline Lanes abs(Lanes x) { return from_bits(bits_of(x) & 0x7fffffff); }
// `magnitude` has no sign yet.
[[gnu::always_inline]] inline Lanes with_sign_of(Lanes x, Lanes magnitude) {
  return from_bits(bits_of(magnitude) | (bits_of(x) & ~0x7fffffff));
}

#else

// No function takes them.
struct Lanes {};
struct DoubleLanes {};

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
