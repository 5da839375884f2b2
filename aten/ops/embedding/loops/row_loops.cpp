// Sums and maxima of rows that lie anywhere, compiled once per instruction set. A block of columns
// stays in registers while the rows go by; those further on are asked for early, as no prefetcher
// guesses them.
#include "aten/ops/embedding/row_loops.h"

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/vector_bytes.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using vec::kVectorBytes;

constexpr int64_t kVectors = 8;  // of columns, half of the registers
constexpr int64_t kAhead = 4;    // rows

template <typename T>
struct RowLanes {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  // The same in memory of any alignment.
  typedef T Stored __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

template <typename T>
using SameSize = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// kBlocks vectors of columns.
template <typename T, int64_t kBlocks, bool kScaled>
[[gnu::always_inline]] inline void gather_block(int64_t n, int64_t known, const T* rows,
                                                int64_t stride, const int64_t* index,
                                                [[maybe_unused]] const T* scale, T* sum) {
  using Lanes = typename RowLanes<T>::Type;
  using Stored = typename RowLanes<T>::Stored;
  Lanes total[kBlocks];
#pragma GCC unroll 8  // an array stays in registers only where no index is left
  for (int64_t v = 0; v < kBlocks; ++v) total[v] = reinterpret_cast<const Stored*>(sum)[v];
  for (int64_t i = 0; i < n; ++i) {
    const T* const ahead = rows + index[i + kAhead < known ? i + kAhead : i] * stride;
    const auto* const row = reinterpret_cast<const Stored*>(rows + index[i] * stride);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kBlocks; ++v) {
      __builtin_prefetch(reinterpret_cast<const char*>(ahead) + v * kVectorBytes);
      if constexpr (kScaled) {
        total[v] += row[v] * scale[i];
      } else {
        total[v] += row[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kBlocks; ++v) reinterpret_cast<Stored*>(sum)[v] = total[v];
}

template <typename T, bool kScaled>
void gather_rows(int64_t n, int64_t known, int64_t width, const void* data, int64_t stride,
                 const int64_t* index, const void* scales, void* result) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
  const T *rows = static_cast<const T*>(data), *scale = static_cast<const T*>(scales);
  T* sum = static_cast<T*>(result);
  int64_t j = 0;
  for (; j + kVectors * kLanes <= width; j += kVectors * kLanes) {
    gather_block<T, kVectors, kScaled>(n, known, rows + j, stride, index, scale, sum + j);
  }
  for (; j + 4 * kLanes <= width; j += 4 * kLanes) {
    gather_block<T, 4, kScaled>(n, known, rows + j, stride, index, scale, sum + j);
  }
  for (; j + 2 * kLanes <= width; j += 2 * kLanes) {
    gather_block<T, 2, kScaled>(n, known, rows + j, stride, index, scale, sum + j);
  }
  for (; j + kLanes <= width; j += kLanes) {
    gather_block<T, 1, kScaled>(n, known, rows + j, stride, index, scale, sum + j);
  }
  for (int64_t i = 0; j < width && i < n; ++i) {
    const T* const row = rows + index[i] * stride;
    const T factor = scale ? scale[i] : T(1);
    for (int64_t k = j; k < width; ++k) sum[k] += factor * row[k];
  }
}

template <typename T>
void gather(int64_t n, int64_t known, int64_t width, const void* data, int64_t stride,
            const int64_t* index, const void* scales, void* result) {
  (scales ? gather_rows<T, true> : gather_rows<T, false>)(n, known, width, data, stride, index,
                                                          scales, result);
}

template <typename T>
void scatter(int64_t n, int64_t width, const void* data, int64_t stride, const int64_t* index,
             const int64_t* target, const void* scales, void* result, int64_t sums_stride) {
  const T *rows = static_cast<const T*>(data), *scale = static_cast<const T*>(scales);
  for (int64_t i = 0; i < n; ++i) {
    const T* const row = rows + index[i] * stride;
    T* const sum = static_cast<T*>(result) + target[i] * sums_stride;
    const T factor = scale ? scale[i] : T(1);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) sum[j] += factor * row[j];
  }
}

// Columns from `j` on, as many as kBlocks vectors hold. A comparison with NaN is false: NaN stays
// where it comes first and loses where it comes later.
template <typename T, int64_t kBlocks>
[[gnu::always_inline]] inline void max_block(int64_t n, int64_t known, const T* rows,
                                             int64_t stride, const int64_t* index, int64_t first,
                                             T* max, SameSize<T>* at) {
  using Lanes = typename RowLanes<T>::Type;
  using Stored = typename RowLanes<T>::Stored;
  using Places = typename RowLanes<SameSize<T>>::Type;
  using StoredPlaces = typename RowLanes<SameSize<T>>::Stored;
  const T* const begin = first == 0 ? rows + index[0] * stride : max;
  Lanes top[kBlocks];
  Places place[kBlocks];
#pragma GCC unroll 8
  for (int64_t v = 0; v < kBlocks; ++v) {
    top[v] = reinterpret_cast<const Stored*>(begin)[v];
    place[v] = first == 0 ? Places{} : Places(reinterpret_cast<const StoredPlaces*>(at)[v]);
  }
  for (int64_t i = first == 0 ? 1 : 0; i < n; ++i) {
    const T* const ahead = rows + index[i + kAhead < known ? i + kAhead : i] * stride;
    const auto* const row = reinterpret_cast<const Stored*>(rows + index[i] * stride);
    const Places here = Places{} + static_cast<SameSize<T>>(first + i);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kBlocks; ++v) {
      __builtin_prefetch(reinterpret_cast<const char*>(ahead) + v * kVectorBytes);
      const Lanes value = row[v];
      const auto above = value > top[v];
      top[v] = above ? value : top[v];
      place[v] = above ? here : place[v];
    }
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kBlocks; ++v) {
    reinterpret_cast<Stored*>(max)[v] = top[v];
    reinterpret_cast<StoredPlaces*>(at)[v] = place[v];
  }
}

template <typename T>
void maxima(int64_t n, int64_t known, int64_t width, const void* data, int64_t stride,
            const int64_t* index, int64_t first, void* maxima_of, void* places) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T)),
                    kMaxVectors = kVectors / 2;
  const T* rows = static_cast<const T*>(data);
  T* max = static_cast<T*>(maxima_of);
  auto* at = static_cast<SameSize<T>*>(places);
  int64_t j = 0;
  for (; j + kMaxVectors * kLanes <= width; j += kMaxVectors * kLanes) {
    max_block<T, kMaxVectors>(n, known, rows + j, stride, index, first, max + j, at + j);
  }
  for (; j + kLanes <= width; j += kLanes) {
    max_block<T, 1>(n, known, rows + j, stride, index, first, max + j, at + j);
  }
  for (int64_t i = 0; j < width && i < n; ++i) {
    const T* const row = rows + index[i] * stride;
    for (int64_t k = j; k < width; ++k) {
      if (first + i != 0 && !(row[k] > max[k])) continue;
      max[k] = row[k];
      at[k] = static_cast<SameSize<T>>(first + i);
    }
  }
}

}  // namespace

extern const embedding::RowLoops FLAMBEAU_LOOPS(embedding_rows)[2];
const embedding::RowLoops FLAMBEAU_LOOPS(embedding_rows)[2] = {
    {&gather<float>, &scatter<float>, &maxima<float>},
    {&gather<double>, &scatter<double>, &maxima<double>}};

}  // namespace flambeau::loops
