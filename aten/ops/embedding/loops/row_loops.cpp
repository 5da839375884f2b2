// Sums and maxima of rows that lie anywhere, compiled once per instruction set. A block of columns
// stays in registers while the rows go by; later rows are requested early, since no
// prefetcher predicts them.
// Formula: out[j] = sum_i scale[i] * row_i[j]; maxima: out[j] = max_i row_i[j].
// Accumulates in: the dtype; float32 for half types.
// NaN, infinity: sums follow IEEE arithmetic; as a maximum NaN wins only in the first row.
// Error: that of bag_cpu.cpp: (n + 1) eps of the sum of magnitudes.
// Source: by definition.
#include "aten/ops/embedding/row_loops.h"

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/vector_bytes.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using embedding::Bags;
using vec::kVectorBytes;

constexpr int64_t kVectors = 8;  // of columns, half of the registers
// Rows: as many lines are on their way at once as the processor keeps track of.
template <int64_t kBlocks>
constexpr int64_t kAhead = 64 / kBlocks;

template <typename T>
struct RowLanes {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  // The same in memory of any alignment.
  typedef T Stored __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

template <typename T>
using SameSize = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// kBlocks vectors of columns. kAdds: to what `sum` holds.
template <typename T, int64_t kBlocks, bool kScaled, bool kAdds>
[[gnu::always_inline]] inline void gather_block(int64_t n, int64_t known, const T* rows,
                                                int64_t stride, const int64_t* index,
                                                [[maybe_unused]] const T* scale, T* sum) {
  using Lanes = typename RowLanes<T>::Type;
  using Stored = typename RowLanes<T>::Stored;
  Lanes total[kBlocks];
#pragma GCC unroll 8  // an array stays in registers only where no index is left
  for (int64_t v = 0; v < kBlocks; ++v)
    total[v] = kAdds ? Lanes(reinterpret_cast<const Stored*>(sum)[v]) : Lanes{};
  for (int64_t i = 0; i < n; ++i) {
    const T* const ahead =
        rows + index[i + kAhead<kBlocks> < known ? i + kAhead<kBlocks> : i] * stride;
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

template <typename T, bool kScaled, bool kAdds>
[[gnu::always_inline]] inline void gather_rows(int64_t n, int64_t known, int64_t width,
                                               const T* rows, int64_t stride, const int64_t* index,
                                               const T* scale, T* sum) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  const auto blocks = [&]<int64_t kBlocks>() __attribute__((always_inline)) {
    for (; j + kBlocks * kLanes <= width; j += kBlocks * kLanes)
      gather_block<T, kBlocks, kScaled, kAdds>(n, known, rows + j, stride, index, scale, sum + j);
  };
  blocks.template operator()<kVectors>();
  blocks.template operator()<4>();
  blocks.template operator()<2>();
  blocks.template operator()<1>();
  if (j == width) return;
  for (int64_t k = j; !kAdds && k < width; ++k) sum[k] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T* const row = rows + index[i] * stride;
    const T factor = kScaled ? scale[i] : T(1);
    for (int64_t k = j; k < width; ++k) sum[k] += factor * row[k];
  }
}

template <typename T>
void gather(int64_t n, int64_t known, int64_t width, const void* data, int64_t stride,
            const int64_t* index, const void* scales, void* result) {
  const T *rows = static_cast<const T*>(data), *scale = static_cast<const T*>(scales);
  T* const sum = static_cast<T*>(result);
  if (scale) {
    gather_rows<T, true, true>(n, known, width, rows, stride, index, scale, sum);
  } else {
    gather_rows<T, false, true>(n, known, width, rows, stride, index, scale, sum);
  }
}

template <typename T, bool kScaled>
void sum_bags(const Bags& b, int64_t begin, int64_t end) {
  const T *rows = static_cast<const T*>(b.rows), *scale = static_cast<const T*>(b.scale);
  T* const sums = static_cast<T*>(b.sums);
  const auto clear = [&](int64_t from, int64_t to) {
    for (int64_t k = from * b.width; k < to * b.width; ++k) sums[k] = 0;
  };
  int64_t next = begin > 0 ? b.target[begin - 1] + 1 : 0;
  for (int64_t i = begin; i < end;) {
    const int64_t bag = b.target[i];
    int64_t last = i + 1;
    while (last < end && b.target[last] == bag) ++last;
    clear(next, bag);
    gather_rows<T, kScaled, false>(last - i, b.count - i, b.width, rows, b.width, b.index + i,
                                   kScaled ? scale + i : nullptr, sums + bag * b.width);
    next = bag + 1;
    i = last;
  }
  if (begin < end && end == b.count) clear(next, b.bags);
}
template <typename T>
void bags(const Bags& b, int64_t begin, int64_t end) {
  (b.scale ? sum_bags<T, true> : sum_bags<T, false>)(b, begin, end);
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
    const T* const ahead =
        rows + index[i + kAhead<kBlocks> < known ? i + kAhead<kBlocks> : i] * stride;
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
    {&bags<float>, &gather<float>, &scatter<float>, &maxima<float>},
    {&bags<double>, &gather<double>, &scatter<double>, &maxima<double>}};

}  // namespace flambeau::loops
