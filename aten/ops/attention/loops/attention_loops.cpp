// Running softmax over blocks of scores, compiled once per instruction set.
// Formula: sum = sum exp(old - new) + sum_j exp(s_j - new), with new = max(old, max_j s_j); weights
// exp(s - logsumexp).
// Accumulates in: float32 for float32 and half types, float64 for float64.
// NaN, infinity: NaN in a score gives NaN; a row of scores that are all -inf adds nothing.
// Error: that of attention_cpu.cpp: 16 eps of the largest magnitude in V.
// Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
#include "aten/ops/attention/attention_loops.h"

#include <stdint.h>

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath.h"

namespace flambeau::loops {
namespace {

using attention::Block;

template <typename T>
FLAMBEAU_WIDE_VECTORS void mask_row(const Block& b, int64_t r, T* s) {
  const T scale = static_cast<T>(b.scale), hidden = -T(__builtin_inf());
#pragma omp simd
  for (int64_t j = 0; j < b.cols; ++j) s[j] *= scale;
  const int64_t step = b.mask_col_stride;
  if (b.mask != nullptr && b.mask_is_bool) {
    const auto* m = static_cast<const uint8_t*>(b.mask) + r * b.mask_row_stride;
    for (int64_t j = 0; j < b.cols; ++j) s[j] = m[j * step] != 0 ? s[j] : hidden;
  } else if (b.mask != nullptr) {
    const T* m = static_cast<const T*>(b.mask) + r * b.mask_row_stride;
    for (int64_t j = 0; j < b.cols; ++j) s[j] += m[j * step];
  }
  const int64_t seen = b.visible + r < 0 ? 0 : b.visible + r;
  for (int64_t j = seen; j < b.cols; ++j) s[j] = hidden;
}

template <typename T>
FLAMBEAU_WIDE_VECTORS T largest(const T* s, int64_t n) {
  // As wide as the elements: a bool would keep the loop from becoming vectors.
  std::conditional_t<sizeof(T) == 4, int32_t, int64_t> has_nan = 0;
  T top = -T(__builtin_inf());
#pragma omp simd reduction(max : top) reduction(| : has_nan)
  for (int64_t j = 0; j < n; ++j) {
    top = s[j] > top ? s[j] : top;
    has_nan |= s[j] != s[j] ? -1 : 0;
  }
  return has_nan ? T(__builtin_nan("")) : top;
}

// s = exp(s - shift); returns the sum.
template <typename T>
FLAMBEAU_WIDE_VECTORS T exponentials(T* s, int64_t n, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const T e = vec::exp(s[j] - shift);
    s[j] = e;
    sum += e;
  }
  return sum;
}

template <typename T>
void accumulate(const Block& b, void* tops, void* sums, void* accs, int64_t width) {
  const T none = -T(__builtin_inf());
  for (int64_t r = 0; r < b.rows; ++r) {
    T* s = static_cast<T*>(b.scores) + r * b.cols;
    mask_row(b, r, s);
    T& top = static_cast<T*>(tops)[r];
    const T found = largest(s, b.cols);
    const T now = found != found || top != top ? T(__builtin_nan("")) : (found > top ? found : top);
    if (now == none) {  // nothing seen so far
      for (int64_t j = 0; j < b.cols; ++j) s[j] = 0;
      continue;
    }
    const T shrink = top == none ? T(0) : vec::exp(top - now);
    top = now;
    T& sum = static_cast<T*>(sums)[r];
    sum = sum * shrink + exponentials(s, b.cols, now);
    if (shrink == T(1)) continue;
    T* acc = static_cast<T*>(accs) + r * width;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) acc[j] *= shrink;
  }
}

template <typename T>
void weights(const Block& b, const void* logsumexp) {
  for (int64_t r = 0; r < b.rows; ++r) {
    T* s = static_cast<T*>(b.scores) + r * b.cols;
    mask_row(b, r, s);
    const T shift = static_cast<const T*>(logsumexp)[r];
    if (shift == -T(__builtin_inf())) {
      for (int64_t j = 0; j < b.cols; ++j) s[j] = 0;
    } else {
      exponentials(s, b.cols, shift);
    }
  }
}

template <typename T>
void grads(const Block& b, const void* weights, void* grads, const void* owns) {
  const T scale = static_cast<T>(b.scale);
  for (int64_t r = 0; r < b.rows; ++r) {
    const T* w = static_cast<const T*>(weights) + r * b.cols;
    T* g = static_cast<T*>(grads) + r * b.cols;
    const T own = static_cast<const T*>(owns)[r];
#pragma omp simd
    for (int64_t j = 0; j < b.cols; ++j) g[j] = w[j] * (g[j] - own) * scale;
  }
}

}  // namespace

extern const flambeau::attention::Loops FLAMBEAU_LOOPS(attention_blocks)[2];
const flambeau::attention::Loops FLAMBEAU_LOOPS(attention_blocks)[2] = {
    {&accumulate<float>, &weights<float>, &grads<float>},
    {&accumulate<double>, &weights<double>, &grads<double>}};

}  // namespace flambeau::loops
