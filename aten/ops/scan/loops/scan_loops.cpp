// Cumulative sums in vectors, compiled once per instruction set: within a vector in log2(lanes)
// steps, so that only one addition per vector waits for the one before it.
// Formula: s[i] = s[i - 1] + x[i].
// Accumulates in: double for float32, so far beyond the result's precision that the order does not
// matter; int64.
// NaN, infinity: NaN stays from where it occurs; infinities of both signs give NaN.
// Error: 1 eps relative in float32 (test/ops/test_scan.py: 2^-23); integers wrap.
// Source: Hillis & Steele 1986.
#include "aten/ops/scan/scan_loops.h"

#include <utility>

#include "aten/cpu/loop_support.h"
#include "aten/cpu/vecmath/vector_bytes.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

template <typename S>
constexpr int kLanes = vec::kVectorBytes / static_cast<int>(sizeof(S));
template <typename S>
struct LanesOf {
  typedef S Type __attribute__((vector_size(vec::kVectorBytes)));
};
// As many elements in memory of any alignment as there are lanes of S.
template <typename T, typename S>
struct StoredOf {
  typedef T Type __attribute__((vector_size(kLanes<S> * sizeof(T)), aligned(sizeof(T)), may_alias));
};

// Lane i plus lane i - kBy.
template <int kBy, typename V, int... I>
[[gnu::always_inline]] inline V plus_earlier(V v, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return v + __builtin_shufflevector(V{}, v, (I < kBy ? I : n + I - kBy)...);
}
template <typename V, int... I>
[[gnu::always_inline]] inline V last_of(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I * 0 + static_cast<int>(sizeof...(I)) - 1)...);
}

template <typename T, typename S>
void sum_row(int64_t n, const T* in, T* out, S* state) {
  constexpr int k = kLanes<S>;
  using Lanes = typename LanesOf<S>::Type;
  using Stored = typename StoredOf<T, S>::Type;
  constexpr std::make_integer_sequence<int, k> each;
  Lanes before = Lanes{} + *state;
  int64_t i = 0;
  for (; i + k <= n; i += k) {
    Lanes v = __builtin_convertvector(*reinterpret_cast<const Stored*>(in + i), Lanes);
    v = plus_earlier<1>(v, each);
    if constexpr (k > 2) v = plus_earlier<2>(v, each);
    if constexpr (k > 4) v = plus_earlier<4>(v, each);
    *reinterpret_cast<Stored*>(out + i) = __builtin_convertvector(before + v, Stored);
    before += last_of(v, each);
  }
  S sum = before[0];
  for (; i < n; ++i) {
    sum += static_cast<S>(in[i]);
    out[i] = static_cast<T>(sum);
  }
  *state = sum;
}

}  // namespace

extern const scan::ScanLoops FLAMBEAU_LOOPS(scan_rows)[1];
const scan::ScanLoops FLAMBEAU_LOOPS(scan_rows)[1] = {
    {&sum_row<float, double>, &sum_row<int64_t, int64_t>}};

}  // namespace flambeau::loops
