#pragma once
// What generated loop files need beside vector math. They are compiled once per instruction set, so
// everything is in an unnamed namespace: no two sets may share one definition.
#include "aten/core/loop_values.h"
#include "aten/cpu/vecmath.h"

// Loops bound by arithmetic want the widest vectors. The others are compiled with 256 bits, as
// wider ones lose on memory that is not aligned to them.
#ifdef __AVX512F__
#define FLAMBEAU_WIDE_VECTORS [[gnu::target("prefer-vector-width=512")]]
#else
#define FLAMBEAU_WIDE_VECTORS
#endif

namespace flambeau::loops {
namespace {

template <typename T>
inline uint32_t divides_by_zero(T divisor) {
  if constexpr (is_integer<T>()) {
    return divisor == T(0) ? kIntegerDivisionByZero : 0;
  } else {
    return 0;
  }
}

// Two neighbours in memory, the first in the lower half: words need no conversion across lanes.
typedef uint32_t BFloat16Pair __attribute__((aligned(2), may_alias));

// The bits of x; the upper half is x rounded to bfloat16 (ties to even; NaN becomes
// quiet). One sum: a choice between two results would be narrowed to 16 bits before it.
[[gnu::always_inline]] inline uint32_t rounded_above(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  return bits + (x != x ? ~bits & 0x400000u : 0x7fffu + ((bits >> 16) & 1u));
}

// out[i] = cell(in[0][i], ...) for bfloat16 elements; I: 0, 1, ... by operand.
template <int... I, typename Cell>
[[gnu::always_inline]] inline void each_bfloat16(int64_t n, char* const* data, const Cell& cell) {
  const BFloat16Pair* const in[] = {reinterpret_cast<const BFloat16Pair*>(data[I + 1])...};
  BFloat16Pair* const out = reinterpret_cast<BFloat16Pair*>(data[0]);
#pragma omp simd
  for (int64_t i = 0; i < n / 2; ++i) {
    const float first = cell(__builtin_bit_cast(float, in[I][i] << 16)...);
    const float second = cell(__builtin_bit_cast(float, in[I][i] & 0xffff0000u)...);
    out[i] = (rounded_above(first) >> 16) | (rounded_above(second) & 0xffff0000u);
  }
  if (n % 2 == 0) return;
  const auto last = [&](int array) { return reinterpret_cast<uint16_t*>(data[array]) + (n - 1); };
  const float value = cell(__builtin_bit_cast(float, uint32_t{*last(I + 1)} << 16)...);
  *last(0) = static_cast<uint16_t>(rounded_above(value) >> 16);
}

// Lanes for float and double, the compute types whose functions may have forms for them.
struct NoLanes {};
template <typename T>
struct LaneForm {
  using type = NoLanes;
  using Stored = NoLanes;
};
#ifdef FLAMBEAU_HAS_LANES
template <>
struct LaneForm<float> {
  using type = vec::Lanes;
  using Stored = vec::StoredLanes;
};
template <>
struct LaneForm<double> {
  using type = vec::DoubleLanes;
  using Stored = vec::StoredDoubleLanes;
};
#endif
template <typename T>
using lanes_t = typename LaneForm<T>::type;

#ifdef FLAMBEAU_HAS_LANES
template <typename T>
[[gnu::always_inline]] inline lanes_t<T> load_lanes(const T* in, bool is_whole, int64_t left) {
  using Stored = typename LaneForm<T>::Stored;
  if (is_whole) return lanes_t<T>(*reinterpret_cast<const Stored*>(in));
  return vec::load_part(in, left);
}
// out[i] = function(in[i]...); the last vector may be a part. The function stands in the code once,
// because those of special functions are long.
template <typename T, typename F, typename... In>
[[gnu::always_inline]] inline void each_lanes(int64_t n, T* out, const F& function,
                                              const In*... in) {
  using Stored = typename LaneForm<T>::Stored;
  constexpr int64_t kCount = sizeof(Stored) / sizeof(T);
  for (int64_t i = 0; i < n; i += kCount) {
    const bool is_whole = n - i >= kCount;
    const lanes_t<T> value = function(load_lanes(in + i, is_whole, n - i)...);
    if (is_whole) {
      *reinterpret_cast<Stored*>(out + i) = value;
    } else {
      vec::store_part(out + i, n - i, value);
    }
  }
}
#endif

// The five loops of one reduction. Long fibers are halved down to blocks, and a block keeps kLanes
// partial results, so that the rounding error of a sum grows with log2(n) + kBlock / kLanes /
// kDepth.
template <typename F>
struct Reduction {
  using Acc = typename F::Acc;
  static constexpr int64_t kLanes = 128 / sizeof(Acc);
  static constexpr int64_t kNarrow = kLanes / 4;
  // Lanes live in memory: kDepth elements are combined in registers for each access to a lane.
  static constexpr int64_t kDepth = 4;
  static constexpr int64_t kBlock = kLanes * kDepth * 32;

  template <int64_t kCount>
  [[gnu::always_inline]] static Acc column(int64_t i, char* const* in, const void* params) {
    if constexpr (kCount == 1) {
      return F::map(in, i, params);
    } else {
      constexpr int64_t kHalf = kCount / 2;
      // In the order of memory, as in range().
      const Acc first = column<kHalf>(i, in, params);
      return F::combine(first, column<kHalf>(i + kHalf * kLanes, in, params));
    }
  }
  template <int64_t kWidth, int64_t kCount>
  [[gnu::always_inline]] static void step(int64_t i, char* const* in, const void* params,
                                          Acc* lanes) {
#pragma omp simd
    for (int64_t l = 0; l < kWidth; ++l)
      lanes[l] = F::combine(lanes[l], column<kCount>(i + l, in, params));
  }
  // The processor's own prefetching stops at the end of each page. Beyond the operand's end it does
  // nothing.
  [[gnu::always_inline]] static void read_ahead(int64_t i, char* const* in) {
    constexpr int64_t kWidth = sizeof(typename F::Element), kAhead = 4096, kLine = 64;
    const char* at = in[0] + i * kWidth + kAhead;
    for (int64_t b = 0; b < kDepth * kLanes * kWidth; b += kLine) __builtin_prefetch(at + b);
  }
  // Widths known at compile time let each halving be one vector operation.
  template <int64_t kWidth>
  [[gnu::always_inline]] static Acc fold(Acc* lanes) {
    if constexpr (kWidth == 1) {
      return lanes[0];
    } else {
#pragma omp simd
      for (int64_t l = 0; l < kWidth / 2; ++l)
        lanes[l] = F::combine(lanes[l], lanes[l + kWidth / 2]);
      return fold<kWidth / 2>(lanes);
    }
  }
  // In kWidth lanes: all of them, or those of a short fiber.
  template <int64_t kWidth>
  static Acc block(int64_t begin, int64_t end, char* const* in, const void* params) {
    Acc lanes[kWidth];
    for (int64_t l = 0; l < kWidth; ++l) lanes[l] = F::identity();
    int64_t i = begin;
    if constexpr (kWidth > kNarrow) {
      for (; i + kDepth * kWidth <= end; i += kDepth * kWidth) {
        read_ahead(i, in);
        step<kWidth, kDepth>(i, in, params, lanes);
      }
      for (; i + kWidth <= end; i += kWidth) step<kWidth, 1>(i, in, params, lanes);
    }
    for (; i + kNarrow <= end; i += kNarrow) step<kNarrow, 1>(i, in, params, lanes);
    for (int64_t l = 0; i + l < end; ++l)
      lanes[l] = F::combine(lanes[l], F::map(in, i + l, params));
    return fold<kWidth>(lanes);
  }
  static Acc range(int64_t begin, int64_t end, char* const* in, const void* params) {
    if (end - begin <= kBlock) return block<kLanes>(begin, end, in, params);
    const int64_t blocks = (end - begin + kBlock - 1) / kBlock;
    const int64_t middle = begin + blocks / 2 * kBlock;
    // In the order of memory, which arguments of one call need not be: prefetchers follow it.
    const Acc first = range(begin, middle, in, params);
    return F::combine(first, range(middle, end, in, params));
  }

  static void init(int64_t n, void* acc) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = F::identity();
  }
  [[gnu::always_inline]] static Acc fiber(int64_t n, char* const* in, const void* params, Acc acc) {
    if (n >= kLanes) return F::combine(acc, range(0, n, in, params));
    if (n >= kNarrow) return F::combine(acc, block<kNarrow>(0, n, in, params));
    for (int64_t i = 0; i < n; ++i) acc = F::combine(acc, F::map(in, i, params));
    return acc;
  }
  static void inner(int64_t fibers, int64_t n, char* const* in, const int64_t* steps, int operands,
                    const void* params, void* acc) {
    Acc* total = static_cast<Acc*>(acc);
    char* at[kMaxOperands];
    for (int a = 0; a < operands; ++a) at[a] = in[a];
    for (int64_t f = 0; f < fibers; ++f) {
      total[f] = fiber(n, at, params, total[f]);
      for (int a = 0; a < operands; ++a) at[a] += steps[a];
    }
  }
  static void outer(int64_t n, char* const* in, const void* params, void* acc) {
    Acc* total = static_cast<Acc*>(acc);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) total[i] = F::combine(total[i], F::map(in, i, params));
  }
  static void merge(int64_t n, const void* other, void* acc) {
    Acc* total = static_cast<Acc*>(acc);
    const Acc* from = static_cast<const Acc*>(other);
    for (int64_t i = 0; i < n; ++i) total[i] = F::combine(total[i], from[i]);
  }
  static void finish(int64_t n, const void* acc, char* const* kept, const void* params,
                     int64_t count, char* out) {
    using Out = typename F::Out;
    for (int64_t i = 0; i < n; ++i) {
      reinterpret_cast<Out*>(out)[i] =
          F::finish(static_cast<const Acc*>(acc)[i], kept, i, params, count);
    }
  }
};

template <typename F>
constexpr ReduceLoops reduce_loops() {
  using R = Reduction<F>;
  return {&R::init, &R::inner, &R::outer, &R::merge, &R::finish};
}

}  // namespace
}  // namespace flambeau::loops
