#pragma once
// Tiles: one vector of complex numbers of each lane, turned into vectors of lanes and back. All
// steps but one stay within the 16-byte chunks of vectors, which is what processors do best. Part
// of fft_loops.cpp, which is compiled once per instruction set.
#include "aten/cpu/vecmath/vector_bytes.h"
#include "aten/ops/fft/fft_loops.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using vec::kVectorBytes;

// One vector holds an element of every lane.
template <typename T>
constexpr int64_t kLanes = kVectorBytes / sizeof(T);

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  // The same in memory of any alignment.
  typedef T Stored __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;
template <typename T>
using Stored = typename VectorOf<T>::Stored;

template <int... I>
struct Pack {};
template <int N, int... I>
struct Indices : Indices<N - 1, N - 1, I...> {};
template <int... I>
struct Indices<0, I...> {
  using Type = Pack<I...>;
};
template <typename T>
using Lanes = typename Indices<static_cast<int>(kLanes<T>)>::Type;

// --- tiles: one vector of complex numbers of each lane, turned into vectors of lanes. All steps
// but one stay within the 16-byte chunks of vectors, which is what processors do best.

// Complex numbers of one vector: a tile has this many elements of each lane.
template <typename T>
constexpr int kUnits = static_cast<int>(kLanes<T>) / 2;
template <typename T>
constexpr int kChunk = static_cast<int>(16 / sizeof(T));
constexpr int kChunks = kVectorBytes / 16;

// Which of kLanes complex numbers `lane` holds once the parts of two vectors are separated, which
// mixes their chunks; and back.
template <typename T>
constexpr int number_in(int lane) {
  constexpr int kHalf = kChunk<T> / 2;
  const int chunk = lane / kChunk<T>, place = lane % kChunk<T>;
  return (place < kHalf ? 0 : kUnits<T> - kHalf) + chunk * kHalf + place;
}
template <typename T>
constexpr int lane_of(int number) {
  constexpr int kHalf = kChunk<T> / 2;
  return number % kUnits<T> / kHalf * kChunk<T> + number / kUnits<T> * kHalf + number % kHalf;
}

// Chunk by chunk: a becomes the first halves of a and b, b the second ones.
template <int kSize, typename V, int... I>
[[gnu::always_inline]] inline void exchange_halves(V& a, V& b, Pack<I...>) {
  constexpr int n = sizeof...(I), half = kSize / 2;
  const V low = __builtin_shufflevector(a, b, (I % kSize < half ? I : n + I - half)...);
  b = __builtin_shufflevector(a, b, (I % kSize < half ? I + half : n + I)...);
  a = low;
}
// Chunk by chunk: a becomes the real parts of a and b, b the imaginary ones.
template <int kSize, typename V, int... I>
[[gnu::always_inline]] inline void separate(V& a, V& b, Pack<I...>) {
  constexpr int n = sizeof...(I), half = kSize / 2;
  constexpr auto at = [](int i) {
    const int q = i % kSize;
    return q < half ? i + q : n + i + q - kSize;
  };
  const V even = __builtin_shufflevector(a, b, at(I)...);
  b = __builtin_shufflevector(a, b, (at(I) + 1)...);
  a = even;
}
// Back.
template <int kSize, typename V, int... I>
[[gnu::always_inline]] inline void join(V& a, V& b, Pack<I...>) {
  constexpr int n = sizeof...(I), half = kSize / 2;
  constexpr auto at = [](int i) { return i % 2 * n + i / kSize * kSize + i % kSize / 2; };
  const V low = __builtin_shufflevector(a, b, at(I)...);
  b = __builtin_shufflevector(a, b, (at(I) + half)...);
  a = low;
}
// Chunk p of a, then that of b: of vectors of two chunks.
template <int kSize, int p, typename V, int... I>
[[gnu::always_inline]] inline V chunk(V a, V b, Pack<I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (I / kSize * n + p * kSize + I % kSize)...);
}
// Chunks p and q of a, then those of b.
template <int kSize, int p, int q, typename V, int... I>
[[gnu::always_inline]] inline V chunks(V a, V b, Pack<I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(
      a, b, (I / kSize / 2 * n + (I / kSize % 2 ? q : p) * kSize + I % kSize)...);
}
// A square of chunks; rows are kStep vectors apart.
template <int kSize, int kStep, typename V, int... I>
[[gnu::always_inline]] inline void transpose_chunks(V* rows, Pack<I...> each) {
  if constexpr (kChunks == 2) {
    const V low = chunk<kSize, 0>(rows[0], rows[kStep], each);
    rows[kStep] = chunk<kSize, 1>(rows[0], rows[kStep], each);
    rows[0] = low;
  }
  if constexpr (kChunks == 4) {
    const V a = chunks<kSize, 0, 1>(rows[0], rows[kStep], each);
    const V b = chunks<kSize, 2, 3>(rows[0], rows[kStep], each);
    const V c = chunks<kSize, 0, 1>(rows[2 * kStep], rows[3 * kStep], each);
    const V d = chunks<kSize, 2, 3>(rows[2 * kStep], rows[3 * kStep], each);
    rows[0] = chunks<kSize, 0, 2>(a, c, each);
    rows[kStep] = chunks<kSize, 1, 3>(a, c, each);
    rows[2 * kStep] = chunks<kSize, 0, 2>(b, d, each);
    rows[3 * kStep] = chunks<kSize, 1, 3>(b, d, each);
  }
}
// A square of complex numbers.
template <typename T>
[[gnu::always_inline]] inline void transpose(Vector<T>* rows) {
  constexpr int kSize = kChunk<T>, kStep = kUnits<T> / kChunks;
  if constexpr (kStep == 2) {
#pragma GCC unroll 4
    for (int i = 0; i < kUnits<T>; i += 2) exchange_halves<kSize>(rows[i], rows[i + 1], Lanes<T>());
  }
#pragma GCC unroll 2
  for (int i = 0; i < kStep; ++i) transpose_chunks<kSize, kStep>(rows + i, Lanes<T>());
}

// A square of kLanes vectors.
template <typename T>
[[gnu::always_inline]] inline void transpose_square(Vector<T>* rows) {
  constexpr int n = static_cast<int>(kLanes<T>), size = kChunk<T>;
#pragma GCC unroll 16
  for (int i = 0; i < n; i += size) {
    if constexpr (size == 4) {
      exchange_halves<4>(rows[i], rows[i + 2], Lanes<T>());
      exchange_halves<4>(rows[i + 1], rows[i + 3], Lanes<T>());
      exchange_halves<2>(rows[i + 2], rows[i + 3], Lanes<T>());
    }
    exchange_halves<2>(rows[i], rows[i + 1], Lanes<T>());
  }
#pragma GCC unroll 4
  for (int i = 0; i < size; ++i) transpose_chunks<size, size>(rows + i, Lanes<T>());
}

// One vector of complex numbers of neighbouring lanes.
template <typename T>
[[gnu::always_inline]] inline void load_numbers(const T* in, T* re, T* im) {
  Vector<T> a = reinterpret_cast<const Stored<T>*>(in)[0];
  Vector<T> b = reinterpret_cast<const Stored<T>*>(in)[1];
  separate<kChunk<T>>(a, b, Lanes<T>());
  *reinterpret_cast<Stored<T>*>(re) = a;
  *reinterpret_cast<Stored<T>*>(im) = b;
}
template <typename T>
[[gnu::always_inline]] inline void store_numbers(const T* re, const T* im, T scale, T* out) {
  Vector<T> a = *reinterpret_cast<const Stored<T>*>(re) * scale;
  Vector<T> b = *reinterpret_cast<const Stored<T>*>(im) * scale;
  join<kChunk<T>>(a, b, Lanes<T>());
  reinterpret_cast<Stored<T>*>(out)[0] = a;
  reinterpret_cast<Stored<T>*>(out)[1] = b;
}

template <typename T>
void load_tile(const T* in, int64_t lane_step, T* re, T* im) {
  constexpr int n = kUnits<T>;
  Vector<T> a[n], b[n];
#pragma GCC unroll 8
  for (int j = 0; j < n; ++j) {
    a[j] = *reinterpret_cast<const Stored<T>*>(in + j * lane_step);
    b[j] = *reinterpret_cast<const Stored<T>*>(in + (n + j) * lane_step);
  }
  transpose<T>(a);
  transpose<T>(b);
#pragma GCC unroll 8
  for (int k = 0; k < n; ++k) {
    separate<kChunk<T>>(a[k], b[k], Lanes<T>());
    reinterpret_cast<Stored<T>*>(re)[k] = a[k];
    reinterpret_cast<Stored<T>*>(im)[k] = b[k];
  }
}

template <typename T>
void store_tile(const T* re, const T* im, T scale, int64_t lane_step, T* out) {
  constexpr int n = kUnits<T>;
  Vector<T> a[n], b[n];
#pragma GCC unroll 8
  for (int k = 0; k < n; ++k) {
    a[k] = reinterpret_cast<const Stored<T>*>(re)[k] * scale;
    b[k] = reinterpret_cast<const Stored<T>*>(im)[k] * scale;
    join<kChunk<T>>(a[k], b[k], Lanes<T>());
  }
  transpose<T>(a);
  transpose<T>(b);
#pragma GCC unroll 8
  for (int j = 0; j < n; ++j) {
    *reinterpret_cast<Stored<T>*>(out + j * lane_step) = a[j];
    *reinterpret_cast<Stored<T>*>(out + (n + j) * lane_step) = b[j];
  }
}

}  // namespace
}  // namespace flambeau::loops
