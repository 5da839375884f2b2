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

// float16 in operations on words alone, which compilers put into vectors: from memory, rounding to
// nearest with ties to even, and to memory of a float that float16 holds.
[[gnu::always_inline]] inline float float_of_half(uint32_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  // As a float, this is 2^-112 times the number: also subnormal numbers become normal.
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  const uint32_t bits =
      magnitude >= 0x7c00u ? 0x7f800000u | (magnitude << 13) : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, bits | (half & 0x8000u) << 16);
}
[[gnu::always_inline]] inline float rounded_to_half(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Sums with 2^13 times the binade of x end at the 11th bit; below 2^-14 at 2^-24.
  const uint32_t exponent = magnitude & 0x7f800000u;
  const uint32_t binade = exponent < 0x38800000u ? 0x38800000u : exponent;
  const float large = __builtin_bit_cast(float, binade + (13u << 23));
  const float near = (__builtin_bit_cast(float, magnitude) + large) - large;
  const float out = near > 65504.0f ? __builtin_inff() : near;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, out) | (bits & 0x80000000u));
}
[[gnu::always_inline]] inline uint16_t half_of_float(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const float aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
  uint32_t out = magnitude < 0x38800000u ? __builtin_bit_cast(uint32_t, aligned) - 0x3f000000u
                                         : (magnitude - 0x38000000u) >> 13;
  out = magnitude >= 0x7f800000u ? 0x7c00u | ((magnitude >> 13) & 0x3ffu) : out;
  return static_cast<uint16_t>(out | (bits >> 16 & 0x8000u));
}

// x, which has the value of M, in its own memory format and back.
template <typename M>
[[gnu::always_inline]] inline M stored(value_t<M> x) {
  if constexpr (__is_same(M, c10::BFloat16)) {
    M out;
    out.bits = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16);
    return out;
  } else if constexpr (__is_same(M, c10::Half)) {
    M out;
    out.bits = half_of_float(x);
    return out;
  } else {
    return M(x);
  }
}
template <typename M>
[[gnu::always_inline]] inline value_t<M> load(const char* at) {
  if constexpr (__is_same(M, c10::Half))
    return float_of_half(*reinterpret_cast<const uint16_t*>(at));
  return static_cast<value_t<M>>(*reinterpret_cast<const M*>(at));
}

// A value of another memory type as one of M.
template <typename M, typename From>
[[gnu::always_inline]] inline value_t<M> as(From x) {
  if constexpr (__is_same(M, c10::BFloat16)) {
    const uint32_t bits = rounded_above(convert<float>(x)) & 0xffff0000u;
    return __builtin_bit_cast(float, bits);
  } else if constexpr (__is_same(M, c10::Half)) {
    return rounded_to_half(convert<float>(x));
  } else if constexpr (is_half<M>) {
    return static_cast<float>(M(convert<float>(x)));
  } else {
    return convert<value_t<M>>(x);
  }
}

// The reduction F (torchgen_out/cells/loop_cells.h) of map(i) over begin <= i < end, in lanes as in
// Reduction (loop_support.h): so is its rounding error.
template <typename F, int64_t kCount, typename Map>
[[gnu::always_inline]] inline typename F::Acc fold_column(int64_t i, int64_t step, const Map& map) {
  if constexpr (kCount == 1) {
    return map(i);
  } else {
    const typename F::Acc first = fold_column<F, kCount / 2>(i, step, map);
    return F::combine(first, fold_column<F, kCount / 2>(i + kCount / 2 * step, step, map));
  }
}
template <typename F, int64_t kWidth>
[[gnu::always_inline]] inline typename F::Acc fold_lanes(typename F::Acc* lanes) {
  if constexpr (kWidth == 1) {
    return lanes[0];
  } else {
#pragma omp simd
    for (int64_t l = 0; l < kWidth / 2; ++l) lanes[l] = F::combine(lanes[l], lanes[l + kWidth / 2]);
    return fold_lanes<F, kWidth / 2>(lanes);
  }
}
template <typename F>
struct FoldShape {
  static constexpr int64_t kLanes = 128 / sizeof(typename F::Acc);
  static constexpr int64_t kDepth = 4;
  static constexpr int64_t kBlock = kLanes * kDepth * 32;
};
template <typename F, typename Map>
[[gnu::always_inline]] inline typename F::Acc fold_block(int64_t begin, int64_t end,
                                                         const Map& map) {
  constexpr int64_t kLanes = FoldShape<F>::kLanes, kDepth = FoldShape<F>::kDepth;
  typename F::Acc lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = F::identity();
  int64_t i = begin;
  for (; i + kDepth * kLanes <= end; i += kDepth * kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] = F::combine(lanes[l], fold_column<F, kDepth>(i + l, kLanes, map));
  }
  for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = F::combine(lanes[l], map(i + l));
  }
  for (int64_t l = 0; i + l < end; ++l) lanes[l] = F::combine(lanes[l], map(i + l));
  return fold_lanes<F, kLanes>(lanes);
}
// Blocks are joined in pairs, those pairs in pairs, and so on.
template <typename F, typename Map>
[[gnu::always_inline]] inline typename F::Acc folded(int64_t n, const Map& map) {
  constexpr int64_t kBlock = FoldShape<F>::kBlock;
  if (n <= kBlock) return fold_block<F>(0, n, map);
  typename F::Acc waiting[64];
  int depth = 0;
  int64_t blocks = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    typename F::Acc acc = fold_block<F>(begin, n - begin < kBlock ? n : begin + kBlock, map);
    for (int64_t b = blocks++; b & 1; b >>= 1) acc = F::combine(waiting[--depth], acc);
    waiting[depth++] = acc;
  }
  typename F::Acc total = waiting[--depth];
  while (depth > 0) total = F::combine(waiting[--depth], total);
  return total;
}

// part[i] joins wide[i] in double precision and becomes 0.
template <typename T>
[[gnu::always_inline]] inline void flush_sums(int64_t n, T* part, double* wide) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    wide[i] += static_cast<double>(part[i]);
    part[i] = T(0);
  }
}

}  // namespace
}  // namespace flambeau::loops
