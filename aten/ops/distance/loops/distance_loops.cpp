// Distances of some rows from many others at a time, one in each lane, so that no sum crosses
// lanes. Compiled once per instruction set.
// Formula: out[j] = (sum_k |x[k] - rows[j, k]|^p)^(1/p).
// Accumulates in: float32 or float64. Sums run over kRun elements and are then added up.
// NaN, infinity: NaN spreads, also for p 0; |x|^p may overflow.
// Error: that of distance_cpu.cpp: relative, at most (64 + k / 64) eps.
// Source: by definition.
#include "aten/ops/distance/distance_loops.h"

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/vector_bytes.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using distance::Order;
using vec::kVectorBytes;

constexpr int64_t kRun = 64;
// Sums of kRows rows against kVectors vectors of others stay in registers together.
constexpr int64_t kRows = 4;
constexpr int64_t kVectors = kVectorBytes == 64 ? 3 : 2;

template <typename T>
struct LanesOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  // The same in memory of any alignment.
  typedef T Stored __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};
template <typename T>
using Lanes = typename LanesOf<T>::Type;
template <typename T>
using Stored = typename LanesOf<T>::Stored;
template <typename T>
constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
template <typename T>
constexpr int64_t kWidth = kVectors * kLanes<T>;

template <Order kOrder, typename T>
[[gnu::always_inline]] inline Lanes<T> combined(Lanes<T> sum, Lanes<T> difference,
                                                [[maybe_unused]] T p) {
  if constexpr (kOrder == Order::Two) return sum + difference * difference;
  if constexpr (kOrder == Order::Zero) {
    const Lanes<T> count = difference != 0 ? Lanes<T>{} + 1 : Lanes<T>{};
    return sum + (difference != difference ? difference : count);
  }
  const Lanes<T> size = difference < 0 ? -difference : difference;
  if constexpr (kOrder == Order::One) return sum + size;
  if constexpr (kOrder == Order::Infinite) {
    const Lanes<T> larger = size > sum ? size : sum;
    return size != size ? size : larger;
  }
  Lanes<T> power;
#pragma omp simd
  for (int64_t l = 0; l < kLanes<T>; ++l) power[l] = vec::pow(size[l], p);
  return sum + power;
}

template <Order kOrder, typename T>
[[gnu::always_inline]] inline T finished(T sum, [[maybe_unused]] T p) {
  if constexpr (kOrder == Order::Two) return vec::sqrt(sum);
  if constexpr (kOrder == Order::Other) return vec::pow(sum, T(1) / p);
  return sum;
}

// out[r] = the sums of kCount rows against the kWidth at `packed`.
template <Order kOrder, int64_t kCount, typename T>
[[gnu::always_inline]] inline void block(int64_t k, const T* left, const T* packed, T p, T* out) {
  constexpr int64_t kSums = kCount * kVectors;
  Lanes<T> total[kSums] = {};
  for (int64_t begin = 0; begin < k; begin += kRun) {
    const int64_t end = begin + kRun < k ? begin + kRun : k;
    Lanes<T> part[kSums] = {};
    for (int64_t i = begin; i < end; ++i) {
      const auto* others = reinterpret_cast<const Stored<T>*>(packed + i * kWidth<T>);
#pragma GCC unroll 16
      for (int64_t s = 0; s < kSums; ++s)
        part[s] =
            combined<kOrder, T>(part[s], left[s / kVectors * k + i] - others[s % kVectors], p);
    }
#pragma GCC unroll 16
    for (int64_t s = 0; s < kSums; ++s) {
      if constexpr (kOrder == Order::Infinite) {
        total[s] = combined<kOrder, T>(total[s], part[s], p);
      } else {
        total[s] += part[s];
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t s = 0; s < kSums; ++s) reinterpret_cast<Stored<T>*>(out)[s] = total[s];
}

// Distances of kCount rows from the first `width` at `packed`.
template <Order kOrder, int64_t kCount, typename T>
[[gnu::always_inline]] inline void tile(int64_t width, int64_t n, int64_t k, const T* left,
                                        const T* packed, T p, T* out) {
  T sums[kCount * kWidth<T>];
  block<kOrder, kCount, T>(k, left, packed, p, sums);
  if (kOrder == Order::Two || kOrder == Order::Other) {
#pragma omp simd
    for (int64_t s = 0; s < kCount * kWidth<T>; ++s) sums[s] = finished<kOrder, T>(sums[s], p);
  }
  for (int64_t r = 0; r < kCount; ++r) {
    const T* from = sums + r * kWidth<T>;
    T* to = out + r * n;
    for (int64_t l = 0; l < width; ++l) to[l] = from[l];
  }
}

// All rows of `left` meet what is packed together while that is in cache.
template <Order kOrder, typename T>
FLAMBEAU_WIDE_VECTORS void distances(int64_t m, int64_t n, int64_t k, const void* left,
                                     const void* packed, double p, void* out) {
  const T order = static_cast<T>(p);
  for (int64_t j = 0; j < n; j += kWidth<T>) {
    const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(packed) + j * k;
    T* to = static_cast<T*>(out) + j;
    const int64_t width = n - j < kWidth<T> ? n - j : kWidth<T>;
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      tile<kOrder, kRows, T>(width, n, k, a + i * k, b, order, to + i * n);
    for (; i < m; ++i) tile<kOrder, 1, T>(width, n, k, a + i * k, b, order, to + i * n);
  }
}

template <typename T>
void pack(int64_t rows, int64_t k, const void* from, void* packed) {
  const T* rows_in = static_cast<const T*>(from);
  for (int64_t j = 0; j < rows; j += kWidth<T>) {
    T* to = static_cast<T*>(packed) + j * k;
    for (int64_t begin = 0; begin < k; begin += kRun) {  // what is written stays in L1
      const int64_t end = begin + kRun < k ? begin + kRun : k;
      for (int64_t l = 0; l < kWidth<T>; ++l) {
        const bool inside = j + l < rows;
        const T* row = rows_in + (inside ? j + l : 0) * k;
        for (int64_t i = begin; i < end; ++i) to[i * kWidth<T> + l] = inside ? row[i] : T(0);
      }
    }
  }
}

template <typename T>
constexpr distance::Loops table() {
  return {kWidth<T>,
          &pack<T>,
          {&distances<Order::Zero, T>, &distances<Order::One, T>, &distances<Order::Two, T>,
           &distances<Order::Infinite, T>, &distances<Order::Other, T>}};
}

}  // namespace

extern const distance::Loops FLAMBEAU_LOOPS(distance)[2];
const distance::Loops FLAMBEAU_LOOPS(distance)[2] = {table<float>(), table<double>()};

}  // namespace flambeau::loops
