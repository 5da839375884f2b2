#pragma once
// Remainders and quotients of Lanes. Formula: rest = |a| - q |b| by one fused product, which is
// exact for q = trunc(|a| / |b|): q is at most one too large, then the rest is negative and |b| is
// added. If q has more digits than the format, the rest is still exact, but not yet below |b|: each
// further step removes 52 binary digits of the quotient.
// Accumulate type: none; long quotients of float are reduced in double. NaN and infinities: as
// C's fmod; part of a vector computes on 0 / 0. Error bound (tested): 0 for remainders.
// Source: the fused division step of Markstein 1990, "Computation of elementary functions on the
// IBM RISC System/6000 processor".
#include "aten/cpu/vecmath/basic.h"
#include "aten/cpu/vecmath/lanes.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

#ifdef FLAMBEAU_HAS_LANES

// Magnitudes of both operands, with the rest of their first step: in (-b, b) where finished.
template <typename V>
struct FirstStep {
  V a;
  V b;
  V quotient;
  V rest;
};
template <typename V>
[[gnu::always_inline]] inline FirstStep<V> first_step(V x, V y) {
  using T = element_t<V>;
  const V a = abs(x), b = abs(y), quotient = trunc(a / b);
  const V rest = madd(-quotient, b, a);
  return {a, b, quotient, quotient < T(1) ? a : rest};  // b may be infinite
}

// |a| mod |b|. Quotients that overflow are left to the C library.
[[gnu::noinline]] inline DoubleLanes long_rest(DoubleLanes a, DoubleLanes b) {
  constexpr int kMostSteps = 1100 / 52;
  DoubleLanes rest = a;
  for (int step = 0; step < kMostSteps && any_at_least(abs(rest), b); ++step) {
    const DoubleLanes quotient = rest / b;
    if (any_at_least(abs(quotient), spread(__builtin_inf()))) {
      for (int64_t i = 0; i < kDoubleLanes; ++i) rest[i] = __builtin_fmod(a[i], b[i]);
      return rest;
    }
    rest = abs(rest) < b ? rest : madd(-trunc(quotient), b, rest);
  }
  return rest;
}
[[gnu::noinline]] inline Lanes long_rest(Lanes a, Lanes b) {
  const DoubleHalves x = as_doubles(a), y = as_doubles(b);
  return as_floats(long_rest(x.low, y.low), long_rest(x.high, y.high));
}

template <typename V>
[[gnu::always_inline]] inline V finished_rest(const FirstStep<V>& s) {
  V rest = s.rest;
  if (any_at_least(abs(rest), s.b)) [[unlikely]]
    rest = abs(rest) >= s.b ? long_rest(s.a, s.b) : rest;
  return rest < 0 ? rest + s.b : rest;
}

// One template for both types: V is Lanes or DoubleLanes.
template <Lanewise V>
[[gnu::always_inline]] inline V fmod(V a, V b) {
  return with_sign_of(a, finished_rest(first_step(a, b)));
}
template <Lanewise V>
[[gnu::always_inline]] inline V remainder(V a, V b) {
  const V rest = fmod(a, b);
  const V opposite = (bits_of(a) ^ bits_of(b)) < 0 ? b : V{};
  return rest != 0 ? rest + opposite : rest;
}

// From the remainder, as floor_divide of numbers: for long quotients, and divisors that are 0.
template <Lanewise V>
[[gnu::noinline]] inline V long_floor_divide(V a, V b) {
  using T = element_t<V>;
  const V rest = fmod(a, b);
  const V lowered = (rest != 0) & ((b < 0) != (rest < 0)) ? spread(T(1)) : V{};
  const V quotient = (a - rest) / b - lowered;
  const V whole = trunc(quotient), floored = whole > quotient ? whole - 1 : whole;
  const V nearest = quotient - floored > T(0.5) ? floored + 1 : floored;
  const V ratio = a / b;
  return b == 0 ? ratio : quotient == 0 ? with_sign_of(ratio, V{}) : nearest;
}
template <Lanewise V>
[[gnu::always_inline]] inline V floor_divide(V a, V b) {
  using T = element_t<V>;
  constexpr T kLongest = static_cast<T>(sizeof(T) == 4 ? 0x1p22 : 0x1p51);
  const FirstStep<V> s = first_step(a, b);
  if (any_at_least(s.quotient, spread(kLongest))) [[unlikely]]
    return long_floor_divide(a, b);
  const V whole = s.rest < 0 ? s.quotient - 1 : s.quotient;
  const V rest = s.rest < 0 ? s.rest + s.b : s.rest;
  const V lower = rest != 0 ? -1 - whole : -whole;
  return (bits_of(a) ^ bits_of(b)) < 0 ? lower : whole;
}

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
