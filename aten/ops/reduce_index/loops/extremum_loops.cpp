// The place of the largest or smallest element, compiled once per instruction set. Helpers are
// inlined: before a tail call GCC 12 leaves out vzeroupper, which slows down all SSE code after it.
// Formula: the first i with x[i] = max x, or min x. Elements are compared by their order keys.
// Accumulates in: none: values are compared.
// NaN, infinity: NaN wins in both directions; the first of several is taken. Infinities are
// ordered.
// Error: none: exact.
// Source: by definition.
#include "aten/ops/reduce_index/extremum_loops.h"

#include "aten/cpu/order_key.h"

namespace flambeau::loops {
namespace {

using extremum::kMaxColumns;

template <typename T, bool kLargest>
[[gnu::always_inline]] inline order_key_t<T> rank(T v) {
  if constexpr (kLargest) {
    return order_key(v);
  } else {
    return reverse_key(v);
  }
}

template <typename T, bool kLargest>
[[gnu::always_inline]] inline int64_t row_serial(int64_t begin, int64_t n, const T* in,
                                                 int64_t at) {
  auto best = rank<T, kLargest>(in[at]);
  for (int64_t i = begin; i < n; ++i) {
    const auto key = rank<T, kLargest>(in[i]);
    const bool better = key > best;  // no branch: in short rows it would be mispredicted
    best = better ? key : best;
    at = better ? i : at;
  }
  return at;
}

// Each lane keeps the best of its places; places count blocks, in the key's width.
template <typename T, bool kLargest>
int64_t row(int64_t n, const void* data) {
  using Key = order_key_t<T>;
  constexpr int64_t kLanes = 128 / sizeof(Key);
  const T* in = static_cast<const T*>(data);
  if (n < 2 * kLanes) return row_serial<T, kLargest>(1, n, in, 0);
  Key best[kLanes], block[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) {
    best[l] = rank<T, kLargest>(in[l]);
    block[l] = 0;
  }
  const int64_t blocks = n / kLanes;
  for (int64_t b = 1; b < blocks; ++b) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      const Key key = rank<T, kLargest>(in[b * kLanes + l]);
      const bool better = key > best[l];
      best[l] = better ? key : best[l];
      block[l] = better ? static_cast<Key>(b) : block[l];
    }
  }
  int64_t top = 0, at = block[0] * kLanes;
  for (int64_t l = 1; l < kLanes; ++l) {
    const int64_t place = block[l] * kLanes + l;
    if (best[l] > best[top] || (best[l] == best[top] && place < at)) {
      top = l;
      at = place;
    }
  }
  return row_serial<T, kLargest>(blocks * kLanes, n, in, at);
}

template <typename T, bool kLargest>
void columns(int64_t n, int64_t stride, int64_t count, const void* data, int64_t* at) {
  using Key = order_key_t<T>;
  const T* in = static_cast<const T*>(data);
  Key best[kMaxColumns], place[kMaxColumns];
  for (int64_t j = 0; j < count; ++j) {
    best[j] = rank<T, kLargest>(in[j]);
    place[j] = 0;
  }
  for (int64_t i = 1; i < n; ++i) {
    const T* from = in + i * stride;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      const Key key = rank<T, kLargest>(from[j]);
      const bool better = key > best[j];
      best[j] = better ? key : best[j];
      place[j] = better ? static_cast<Key>(i) : place[j];
    }
  }
  for (int64_t j = 0; j < count; ++j) at[j] = place[j];
}

template <typename T>
constexpr extremum::Loops kLoops = {{&row<T, false>, &row<T, true>},
                                    {&columns<T, false>, &columns<T, true>}};

}  // namespace

// By dtype, in the order of ScalarType; complex numbers have no order.
extern const extremum::Loops FLAMBEAU_LOOPS(extremum)[kNumScalarTypes];
const extremum::Loops FLAMBEAU_LOOPS(extremum)[kNumScalarTypes] = {kLoops<StoredBool>,
                                                                   kLoops<uint8_t>,
                                                                   kLoops<int8_t>,
                                                                   kLoops<int16_t>,
                                                                   kLoops<int32_t>,
                                                                   kLoops<int64_t>,
                                                                   kLoops<c10::Half>,
                                                                   kLoops<c10::BFloat16>,
                                                                   kLoops<float>,
                                                                   kLoops<double>,
                                                                   {},
                                                                   {},
                                                                   kLoops<uint64_t>,
                                                                   kLoops<uint16_t>,
                                                                   kLoops<uint32_t>};

}  // namespace flambeau::loops
