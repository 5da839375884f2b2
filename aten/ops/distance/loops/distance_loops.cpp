// Distances of some rows from many others at a time, one in each lane, so that no sum crosses
// lanes. Compiled once per instruction set.
// Formula: out[j] = (sum_k |x[k] - rows[j, k]|^p)^(1/p).
// Accumulates in: float32 or float64. Sums run over kRun elements and are then added up.
// NaN, infinity: NaN spreads, also for p 0; |x|^p may overflow.
// Error: that of distance_cpu.cpp: relative, at most (64 + k / 64) eps.
// Source: by definition.
#include "aten/ops/distance/distance_loops.h"

#include <limits>
#include <type_traits>

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

// |x|, and of two such the larger one: numbers without a sign are ordered as their bits are, and
// NaN comes last.
template <typename T>
using LaneBits = decltype(Lanes<T>{} != Lanes<T>{});
template <typename T>
[[gnu::always_inline]] inline LaneBits<T> size_bits(Lanes<T> x) {
  using Bit = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  return reinterpret_cast<LaneBits<T>>(x) & std::numeric_limits<Bit>::max();
}
template <typename T>
[[gnu::always_inline]] inline Lanes<T> size_of(Lanes<T> x) {
  return reinterpret_cast<Lanes<T>>(size_bits<T>(x));
}
template <typename T>
[[gnu::always_inline]] inline Lanes<T> larger_size(Lanes<T> a, Lanes<T> b) {
  const LaneBits<T> x = size_bits<T>(a), y = reinterpret_cast<LaneBits<T>>(b);
  return reinterpret_cast<Lanes<T>>(x > y ? x : y);
}

template <Order kOrder, typename T>
[[gnu::always_inline]] inline Lanes<T> combined(Lanes<T> sum, Lanes<T> difference,
                                                [[maybe_unused]] T p) {
  if constexpr (kOrder == Order::Two) return sum + difference * difference;
  if constexpr (kOrder == Order::Zero) {
    const Lanes<T> count = difference != 0 ? Lanes<T>{} + 1 : Lanes<T>{};
    return sum + (difference != difference ? difference : count);
  }
  if constexpr (kOrder == Order::One) return sum + size_of<T>(difference);
  if constexpr (kOrder == Order::Infinite) return larger_size<T>(difference, sum);
  const Lanes<T> size = size_of<T>(difference);
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

// out[r kWide + v] = the sums of row r < kCount against vector v < kWide of the kVectors that are
// packed together.
template <Order kOrder, int64_t kCount, int64_t kWide, typename T>
[[gnu::always_inline]] inline void block(int64_t k, const T* left, const T* packed, T p, T* out) {
  constexpr int64_t kSums = kCount * kWide;
  Lanes<T> total[kSums] = {};
  for (int64_t begin = 0; begin < k; begin += kRun) {
    const int64_t end = begin + kRun < k ? begin + kRun : k;
    Lanes<T> part[kSums] = {};
    for (int64_t i = begin; i < end; ++i) {
      const auto* others = reinterpret_cast<const Stored<T>*>(packed) + i * kVectors;
#pragma GCC unroll 16
      for (int64_t s = 0; s < kSums; ++s)
        part[s] = combined<kOrder, T>(part[s], left[s / kWide * k + i] - others[s % kWide], p);
    }
#pragma GCC unroll 16
    for (int64_t s = 0; s < kSums; ++s) {
      if constexpr (kOrder == Order::Infinite) {
        total[s] = larger_size<T>(part[s], total[s]);
      } else {
        total[s] += part[s];
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t s = 0; s < kSums; ++s) reinterpret_cast<Stored<T>*>(out)[s] = total[s];
}

// What a tile reads: rows of k elements, and packed rows.
template <typename T>
struct Sides {
  int64_t k;
  const T* left;
  const T* packed;
  T p;
};
// Distances of rows i, i + 1, ... i + kCount - 1 from those of kWide vectors from `vector` on.
template <Order kOrder, int64_t kCount, int64_t kWide, typename T>
FLAMBEAU_WIDE_VECTORS void tile(const Sides<T>& s, int64_t i, const T* vector, T* out) {
  block<kOrder, kCount, kWide, T>(s.k, s.left + i * s.k, vector, s.p, out);
  if (kOrder != Order::Two && kOrder != Order::Other) return;
#pragma omp simd
  for (int64_t at = 0; at < kCount * kWide * kLanes<T>; ++at)
    out[at] = finished<kOrder, T>(out[at], s.p);
}
template <Order kOrder, int64_t kCount, typename T>
void tile_of(const Sides<T>& s, int64_t wide, int64_t i, const T* vector, T* out) {
  if constexpr (kOrder == Order::Other && kCount > 1) {  // powers take the time: less code
    for (int64_t r = 0; r < kCount; ++r)
      tile_of<kOrder, 1, T>(s, wide, i + r, vector, out + r * wide * kLanes<T>);
    return;
  }
  if constexpr (kVectors > 2) {
    if (wide == 3) return tile<kOrder, kCount, 3, T>(s, i, vector, out);
  }
  if (wide == 2) return tile<kOrder, kCount, 2, T>(s, i, vector, out);
  tile<kOrder, kCount, 1, T>(s, i, vector, out);
}

// store(i, j, count, sums) for distances of row i from rows j, ... j + count - 1, row by row. All
// rows begin <= i < end meet what is packed together while that is in cache; pairs skip the vectors
// that hold rows up to i alone.
template <Order kOrder, bool kPairs, typename T, typename Store>
[[gnu::always_inline]] inline void each_tile(int64_t begin, int64_t end, int64_t n,
                                             const Sides<T>& sides, const Store& store) {
  T sums[kRows * kVectors * kLanes<T>];
  const int64_t vectors = (n + kLanes<T> - 1) / kLanes<T>;
  for (int64_t group = 0; group < vectors; group += kVectors) {
    const int64_t stop = vectors - group < kVectors ? vectors : group + kVectors;
    for (int64_t i = begin; i < end;) {
      const int64_t first = kPairs && (i + 1) / kLanes<T> > group ? (i + 1) / kLanes<T> : group;
      if (first >= stop) break;
      const int64_t wide = stop - first, j = first * kLanes<T>;
      const int64_t rows = end - i < kRows ? 1 : kRows;
      const T* packed = sides.packed + (group * sides.k + first - group) * kLanes<T>;
      if (rows == kRows) {
        tile_of<kOrder, kRows, T>(sides, wide, i, packed, sums);
      } else {
        tile_of<kOrder, 1, T>(sides, wide, i, packed, sums);
      }
      const int64_t held = wide * kLanes<T>, count = n - j < held ? n - j : held;
      for (int64_t r = 0; r < rows; ++r) store(i + r, j, count, sums + r * held);
      i += rows;
    }
  }
}

template <Order kOrder, typename T>
void distances(int64_t m, int64_t n, int64_t k, const void* left, const void* packed, double p,
               void* out) {
  const Sides<T> sides{k, static_cast<const T*>(left), static_cast<const T*>(packed),
                       static_cast<T>(p)};
  each_tile<kOrder, false, T>(0, m, n, sides,
                              [&](int64_t i, int64_t j, int64_t count, const T* sums) {
                                T* to = static_cast<T*>(out) + i * n + j;
                                for (int64_t l = 0; l < count; ++l) to[l] = sums[l];
                              });
}

template <Order kOrder, typename T>
void pairs(int64_t begin, int64_t end, int64_t n, int64_t k, const void* rows, const void* packed,
           double p, void* out) {
  const Sides<T> sides{k, static_cast<const T*>(rows), static_cast<const T*>(packed),
                       static_cast<T>(p)};
  each_tile<kOrder, true, T>(
      begin, end, n, sides, [&](int64_t i, int64_t j, int64_t count, const T* sums) {
        const int64_t skipped = j > i ? 0 : i + 1 - j;
        T* to = static_cast<T*>(out) + distance::pairs_before(i, n) + (j + skipped - i - 1);
        for (int64_t l = skipped; l < count; ++l) to[l - skipped] = sums[l];
      });
}

template <typename T>
void pack(int64_t rows, int64_t k, const void* from, void* packed) {
  const T* rows_in = static_cast<const T*>(from);
  for (int64_t j = 0; j < rows; j += kWidth<T>) {
    T* to = static_cast<T*>(packed) + j * k;
    const int64_t held = rows - j < kWidth<T> ? rows - j : kWidth<T>;
    const int64_t lanes = (held + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    for (int64_t begin = 0; begin < k; begin += kRun) {  // what is written stays in L1
      const int64_t end = begin + kRun < k ? begin + kRun : k;
      for (int64_t l = 0; l < held; ++l) {
        const T* row = rows_in + (j + l) * k;
        for (int64_t i = begin; i < end; ++i) to[i * kWidth<T> + l] = row[i];
      }
      for (int64_t l = held; l < lanes; ++l)
        for (int64_t i = begin; i < end; ++i) to[i * kWidth<T> + l] = T(0);
    }
  }
}

template <typename T>
constexpr distance::Loops table() {
  return {kWidth<T>,
          &pack<T>,
          {&distances<Order::Zero, T>, &distances<Order::One, T>, &distances<Order::Two, T>,
           &distances<Order::Infinite, T>, &distances<Order::Other, T>},
          {&pairs<Order::Zero, T>, &pairs<Order::One, T>, &pairs<Order::Two, T>,
           &pairs<Order::Infinite, T>, &pairs<Order::Other, T>}};
}

}  // namespace

extern const distance::Loops FLAMBEAU_LOOPS(distance)[2];
const distance::Loops FLAMBEAU_LOOPS(distance)[2] = {table<float>(), table<double>()};

}  // namespace flambeau::loops
