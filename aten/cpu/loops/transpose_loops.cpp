// Transposition of matrices of elements of 1 to 16 bytes, compiled once per instruction set.
// Squares of 16 bytes are turned in registers by rounds of interleaving (a perfect shuffle of 2^k
// vectors k times is a transposition); two of them side by side fill a vector of 32 bytes. A line
// of every source row is used up before the next one is touched. Pure movement, exact in every
// dtype.
#include "aten/core/loop_types.h"
#include "aten/cpu/transpose.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

#ifdef __AVX2__
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kChunkBytes = 16;

template <typename T>
struct Vectors {
  typedef T Whole __attribute__((vector_size(kVectorBytes)));
  typedef T Chunk __attribute__((vector_size(kChunkBytes)));
  // The same in memory of any alignment.
  typedef T StoredWhole __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
  typedef T StoredChunk __attribute__((vector_size(kChunkBytes), aligned(1), may_alias));
};
template <typename T>
constexpr int kSquare = kChunkBytes / static_cast<int>(sizeof(T));  // elements of its side
template <typename T>
constexpr int kWide = kVectorBytes / static_cast<int>(sizeof(T));

template <int... I>
struct Pack {};
template <int N, int... I>
struct Indices : Indices<N - 1, N - 1, I...> {};
template <int... I>
struct Indices<0, I...> {
  using Type = Pack<I...>;
};
template <typename T>
using Places = typename Indices<kWide<T>>::Type;

// Chunk by chunk, elements of a and b in turn: of their first halves, or the second ones.
template <int kSize, bool kSecond, typename V, int... I>
[[gnu::always_inline]] inline V interleaved(V a, V b, Pack<I...>) {
  constexpr int n = sizeof...(I), start = kSecond ? kSize / 2 : 0;
  return __builtin_shufflevector(a, b, (I % 2 * n + I / kSize * kSize + I % kSize / 2 + start)...);
}

template <typename V, typename C, int... I>
[[gnu::always_inline]] inline V joined(C a, C b, Pack<I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// A chunk; if vectors hold two, also the one that is `apart` bytes later.
template <typename T>
[[gnu::always_inline]] inline typename Vectors<T>::Whole load(const char* at, int64_t apart) {
  using Stored = typename Vectors<T>::StoredChunk;
  using Chunk = typename Vectors<T>::Chunk;
  const Chunk first = *reinterpret_cast<const Stored*>(at);
  if constexpr (kVectorBytes == kChunkBytes) {
    return first;
  } else {
    const Chunk second = *reinterpret_cast<const Stored*>(at + apart);
    return joined<typename Vectors<T>::Whole>(first, second, Places<T>());
  }
}

// kSquare rows of kWide columns.
template <typename T>
[[gnu::always_inline]] inline void turn(const char* from, int64_t from_step, char* to,
                                        int64_t to_step) {
  constexpr int n = kSquare<T>;
  using Whole = typename Vectors<T>::Whole;
  Whole v[n], w[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) v[i] = load<T>(from + i * from_step, n * from_step);
#pragma GCC unroll 4
  for (int done = 1; done < n; done *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      w[2 * i] = interleaved<n, false>(v[i], v[i + n / 2], Places<T>());
      w[2 * i + 1] = interleaved<n, true>(v[i], v[i + n / 2], Places<T>());
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = w[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i)
    *reinterpret_cast<typename Vectors<T>::StoredWhole*>(to + i * to_step) = v[i];
}

template <typename T>
struct [[gnu::packed, gnu::may_alias]] Loose {
  T value;
};

template <typename T>
[[gnu::always_inline]] inline void move(const char* from, char* to) {
  reinterpret_cast<Loose<T>*>(to)->value = reinterpret_cast<const Loose<T>*>(from)->value;
}

template <typename T>
void one_by_one(int64_t rows, int64_t columns, const char* from, int64_t from_step, char* to,
                int64_t to_step) {
  constexpr int64_t kSize = sizeof(T), kLine = kTransposeLine / kSize;
  for (int64_t first = 0; first < rows; first += kLine) {
    const int64_t last = first + kLine < rows ? first + kLine : rows;
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = first; r < last; ++r)
        move<T>(from + c * from_step + r * kSize, to + r * to_step + c * kSize);
    }
  }
}

// Few columns, such as those of pixels: known at compile time.
template <typename T, int kColumns>
void join_columns(int64_t rows, const char* from, int64_t from_step, char* to) {
  constexpr int64_t kSize = sizeof(T);
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c)
      move<T>(from + c * from_step + r * kSize, to + (r * kColumns + c) * kSize);
  }
}
template <typename T, int kRows>
void part_rows(int64_t columns, const char* from, char* to, int64_t to_step) {
  constexpr int64_t kSize = sizeof(T);
  for (int64_t c = 0; c < columns; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      move<T>(from + (c * kRows + r) * kSize, to + r * to_step + c * kSize);
  }
}

// Whether a matrix of two to four columns, or rows, without gaps has been moved.
template <typename T>
bool move_narrow(int64_t rows, int64_t columns, const char* from, int64_t from_step, char* to,
                 int64_t to_step) {
  constexpr int64_t kSize = sizeof(T);
  if (to_step == columns * kSize) {
    if (columns == 2) return join_columns<T, 2>(rows, from, from_step, to), true;
    if (columns == 3) return join_columns<T, 3>(rows, from, from_step, to), true;
    if (columns == 4) return join_columns<T, 4>(rows, from, from_step, to), true;
  }
  if (from_step == rows * kSize) {
    if (rows == 2) return part_rows<T, 2>(columns, from, to, to_step), true;
    if (rows == 3) return part_rows<T, 3>(columns, from, to, to_step), true;
    if (rows == 4) return part_rows<T, 4>(columns, from, to, to_step), true;
  }
  return false;
}

// Blocks at the end overlap those before: what is moved twice is the same.
template <typename T>
void transpose(int64_t rows, int64_t columns, const char* from, int64_t from_step, char* to,
               int64_t to_step) {
  constexpr int64_t kSize = sizeof(T), kLine = kTransposeLine / kSize;
  constexpr int64_t high = kSquare<T>, wide = kWide<T>;
  if (move_narrow<T>(rows, columns, from, from_step, to, to_step)) return;
  if (rows < high || columns < wide)
    return one_by_one<T>(rows, columns, from, from_step, to, to_step);
  for (int64_t first = 0; first < rows; first += kLine) {
    const int64_t last = first + kLine < rows ? first + kLine : rows;
    for (int64_t column = 0; column < columns; column += wide) {
      const int64_t c = column + wide <= columns ? column : columns - wide;
      for (int64_t row = first; row < last; row += high) {
        const int64_t r = row + high <= rows ? row : rows - high;
        turn<T>(from + c * from_step + r * kSize, from_step, to + r * to_step + c * kSize, to_step);
      }
    }
  }
}

// Elements as large as a chunk.
struct Pair {
  uint64_t low, high;
};

}  // namespace

extern const TransposeLoop FLAMBEAU_LOOPS(transpose)[5];
const TransposeLoop FLAMBEAU_LOOPS(transpose)[5] = {&transpose<uint8_t>, &transpose<uint16_t>,
                                                    &transpose<uint32_t>, &transpose<uint64_t>,
                                                    &one_by_one<Pair>};

}  // namespace flambeau::loops
