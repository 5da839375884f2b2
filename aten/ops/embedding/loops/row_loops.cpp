// Sums of rows that lie anywhere, compiled once per instruction set. A block of columns stays in
// registers while the rows go by; those further on are asked for early, as no prefetcher guesses
// them.
#include "aten/ops/embedding/row_loops.h"

#include "aten/cpu/loop_support.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kBytes = 32;
#else
constexpr int64_t kBytes = 16;
#endif
constexpr int64_t kVectors = 8;  // of columns, half of the registers
constexpr int64_t kAhead = 4;    // rows

template <typename T>
struct RowLanes {
  typedef T Type __attribute__((vector_size(kBytes)));
  // The same in memory of any alignment.
  typedef T Stored __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};

// kBlocks vectors of columns.
template <typename T, int64_t kBlocks, bool kScaled>
[[gnu::always_inline]] inline void gather_block(int64_t n, const T* rows, int64_t stride,
                                                const int64_t* index,
                                                [[maybe_unused]] const T* scale, T* sum) {
  using Lanes = typename RowLanes<T>::Type;
  using Stored = typename RowLanes<T>::Stored;
  Lanes total[kBlocks];
#pragma GCC unroll 8  // an array stays in registers only where no index is left
  for (int64_t v = 0; v < kBlocks; ++v) total[v] = reinterpret_cast<const Stored*>(sum)[v];
  for (int64_t i = 0; i < n; ++i) {
    const T* const ahead = rows + index[i + kAhead < n ? i + kAhead : i] * stride;
    const auto* const row = reinterpret_cast<const Stored*>(rows + index[i] * stride);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kBlocks; ++v) {
      __builtin_prefetch(reinterpret_cast<const char*>(ahead) + v * kBytes);
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
void gather_rows(int64_t n, int64_t width, const void* data, int64_t stride, const int64_t* index,
                 const void* scales, void* result) {
  constexpr int64_t kLanes = kBytes / static_cast<int64_t>(sizeof(T));
  const T *rows = static_cast<const T*>(data), *scale = static_cast<const T*>(scales);
  T* sum = static_cast<T*>(result);
  int64_t j = 0;
  for (; j + kVectors * kLanes <= width; j += kVectors * kLanes) {
    gather_block<T, kVectors, kScaled>(n, rows + j, stride, index, scale, sum + j);
  }
  for (; j + kLanes <= width; j += kLanes) {
    gather_block<T, 1, kScaled>(n, rows + j, stride, index, scale, sum + j);
  }
  for (int64_t i = 0; j < width && i < n; ++i) {
    const T* const row = rows + index[i] * stride;
    const T factor = scale ? scale[i] : T(1);
    for (int64_t k = j; k < width; ++k) sum[k] += factor * row[k];
  }
}

template <typename T>
void gather(int64_t n, int64_t width, const void* data, int64_t stride, const int64_t* index,
            const void* scales, void* result) {
  (scales ? gather_rows<T, true> : gather_rows<T, false>)(n, width, data, stride, index, scales,
                                                          result);
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

}  // namespace

extern const embedding::RowLoops FLAMBEAU_LOOPS(embedding_rows)[2];
const embedding::RowLoops FLAMBEAU_LOOPS(embedding_rows)[2] = {{&gather<float>, &scatter<float>},
                                                               {&gather<double>, &scatter<double>}};

}  // namespace flambeau::loops
