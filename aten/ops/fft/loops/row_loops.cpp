// The transform of one contiguous sequence by vectors of its own elements, compiled once per
// instruction set: the work before and after the transforms of its lanes (row_plan.h).
// Formula: that of fft_cpu.cpp, as rows x columns transforms with twiddles between them.
// Accumulates in: the input's precision, with twiddles rounded from double.
// NaN, infinity: both spread over their sequence.
// Error: that of fft_cpu.cpp: at most 4 eps log2(2 n) of the norm.
// Source: Gentleman & Sande 1966.
#include "aten/ops/fft/fft_loops.h"
#include "aten/ops/fft/loops/butterflies.h"

namespace flambeau::loops {
namespace {

template <typename T>
[[gnu::always_inline]] inline Value<Vector<T>> load_parts(const T* in) {
  Vector<T> a = reinterpret_cast<const Stored<T>*>(in)[0];
  Vector<T> b = reinterpret_cast<const Stored<T>*>(in)[1];
  separate<kChunk<T>>(a, b, Lanes<T>());
  return {a, b};
}
template <typename T>
[[gnu::always_inline]] inline void store_parts(Value<Vector<T>> v, T* out) {
  join<kChunk<T>>(v.re, v.im, Lanes<T>());
  reinterpret_cast<Stored<T>*>(out)[0] = v.re;
  reinterpret_cast<Stored<T>*>(out)[1] = v.im;
}

template <typename T>
void split(const T* in, int64_t vectors, T* even, T* odd) {
  for (int64_t k = 0; k < vectors; ++k) {
    store<T>(load_parts(in + 2 * k * kLanes<T>), even + k * kLanes<T>, odd + k * kLanes<T>);
  }
}

// kLanes outputs of every lane times the twiddles, transformed across the lanes.
template <typename T, int... I>
[[gnu::always_inline]] inline void across_block(const T* re, const T* im, const T* twiddles,
                                                T scale, bool exchanged, int64_t apart, T* out,
                                                Pack<I...>) {
  constexpr int64_t n = kLanes<T>;
  const auto twisted = [&](int row) {
    return load<T>(re + row * n, im + row * n) *
           load<T>(twiddles + 2 * row * n, twiddles + (2 * row + 1) * n);
  };
  Vector<T> x[n], y[n];
  ((x[I] = twisted(number_in<T>(I)).re), ...);
  ((y[I] = twisted(number_in<T>(I)).im), ...);
  transpose_square<T>(x);
  transpose_square<T>(y);
  Value<Vector<T>> v[n] = {{x[lane_of<T>(I)], y[lane_of<T>(I)]}...};
  Butterfly<static_cast<int>(n)>::apply(v);
  if (exchanged) {
    (store_parts<T>({v[I].im * scale, v[I].re * scale}, out + 2 * I * apart), ...);
  } else {
    (store_parts<T>({v[I].re * scale, v[I].im * scale}, out + 2 * I * apart), ...);
  }
}

template <typename T>
void across(const T* re, const T* im, int64_t count, const T* twiddles, T scale, bool exchanged,
            T* out) {
  constexpr int64_t n = kLanes<T>;
  for (int64_t k = 0; k < count; k += n) {
    const int64_t at = k + n <= count ? k : count - n;  // the last block may overlap
    across_block(re + at * n, im + at * n, twiddles + 2 * at * n, scale, exchanged, count,
                 out + 2 * at, Lanes<T>());
  }
}

template <typename T>
constexpr fft::RowLoops<T> table() {
  return {&split<T>, &across<T>};
}

}  // namespace

extern const fft::RowLoops<float> FLAMBEAU_LOOPS(fft_rows_float)[1];
const fft::RowLoops<float> FLAMBEAU_LOOPS(fft_rows_float)[1] = {table<float>()};
extern const fft::RowLoops<double> FLAMBEAU_LOOPS(fft_rows_double)[1];
const fft::RowLoops<double> FLAMBEAU_LOOPS(fft_rows_double)[1] = {table<double>()};

}  // namespace flambeau::loops
