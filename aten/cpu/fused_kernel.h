#pragma once
// What generated kernels of fused groups need beside the formulas: elements as memory holds them.
// Values of bfloat16 and float16 are floats that these types hold exactly.
#include "aten/cpu/convert.h"
#include "aten/cpu/loop_support.h"

namespace flambeau::loops {
namespace {

// The value of an element of memory type M in a kernel.
template <typename M>
struct ValueOf {
  using type = M;
};
template <>
struct ValueOf<c10::StoredBool> {
  using type = bool;
};
template <typename M>
  requires(is_half<M>)
struct ValueOf<M> {
  using type = float;
};
template <typename M>
using value_t = typename ValueOf<M>::type;

// x, which has the value of M, in its own memory format and back.
template <typename M>
[[gnu::always_inline]] inline M stored(value_t<M> x) {
  if constexpr (__is_same(M, c10::BFloat16)) {
    M out;
    out.bits = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16);
    return out;
  } else {
    return M(x);
  }
}
template <typename M>
[[gnu::always_inline]] inline value_t<M> load(const char* at) {
  return static_cast<value_t<M>>(*reinterpret_cast<const M*>(at));
}

// A value of another memory type as one of M.
template <typename M, typename From>
[[gnu::always_inline]] inline value_t<M> as(From x) {
  if constexpr (__is_same(M, c10::BFloat16)) {
    const uint32_t bits = rounded_above(convert<float>(x)) & 0xffff0000u;
    return __builtin_bit_cast(float, bits);
  } else if constexpr (is_half<M>) {
    return static_cast<float>(M(convert<float>(x)));
  } else {
    return convert<value_t<M>>(x);
  }
}

}  // namespace
}  // namespace flambeau::loops
