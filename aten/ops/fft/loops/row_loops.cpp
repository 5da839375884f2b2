// The transform of one contiguous sequence by vectors of its own elements, compiled once per
// instruction set: what comes before and after the transforms of its lanes (fft_plan.h), and the
// steps between a complex transform and a real one of twice as many elements.
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
[[gnu::always_inline]] inline Value<T> conjugate(Value<T> a) {
  return {a.re, -a.im};
}
template <typename V, int... I>
[[gnu::always_inline]] inline V reversed(V a, Pack<I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, a, (n - 1 - I)...);
}
template <typename T>
[[gnu::always_inline]] inline Value<Vector<T>> load_reversed(const T* in) {
  const Value<Vector<T>> v = load_parts(in);
  return {reversed(v.re, Lanes<T>()), reversed(v.im, Lanes<T>())};
}

// As combine_pairs of fft_loops.cpp, along one sequence: pair(a, b, w) of elements k and half - k
// returns what becomes of them, with w = roots[k].
template <typename T, typename Pair>
[[gnu::always_inline]] inline void each_pair(int64_t half, const T* roots, const T* in, T* out,
                                             const Pair& pair) {
  constexpr int64_t n = kLanes<T>;
  int64_t k = 1;
  for (; k + n - 1 < half - k - n + 1; k += n) {
    const int64_t other = half - k - n + 1;
    Value<Vector<T>> a = load_parts(in + 2 * k), b = load_reversed(in + 2 * other);
    pair(a, b, load_parts(roots + 2 * k));
    store_parts<T>(a, out + 2 * k);
    store_parts<T>({reversed(b.re, Lanes<T>()), reversed(b.im, Lanes<T>())}, out + 2 * other);
  }
  for (; 2 * k <= half; ++k) {
    Value<T> a{in[2 * k], in[2 * k + 1]}, b{in[2 * (half - k)], in[2 * (half - k) + 1]};
    pair(a, b, Value<T>{roots[2 * k], roots[2 * k + 1]});
    out[2 * (half - k)] = b.re;
    out[2 * (half - k) + 1] = b.im;
    out[2 * k] = a.re;
    out[2 * k + 1] = a.im;
  }
}

template <typename T>
void unpack_row(int64_t half, const T* roots, T scale, T* x) {
  const T re = x[0], im = x[1], by = T(0.5) * scale;
  x[0] = (re + im) * scale;
  x[2 * half] = (re - im) * scale;
  x[1] = x[2 * half + 1] = 0;
  each_pair(half, roots, x, x, [by](auto& a, auto& b, const auto& w) {
    const auto sum = scaled(a + conjugate(b), by);
    const auto turn = turned(scaled(a - conjugate(b), by) * w);
    a = sum + turn;
    b = conjugate(sum - turn);
  });
}

template <typename T>
void pack_row(int64_t half, const T* roots, const T* in, T* out) {
  const T first = in[0], last = in[2 * half];
  each_pair(half, roots, in, out, [](auto& a, auto& b, const auto& w) {
    const auto sum = a + conjugate(b);
    auto turn = turned((a - conjugate(b)) * conjugate(w));
    turn = {-turn.re, -turn.im};
    a = sum + turn;
    b = conjugate(sum - turn);
  });
  out[0] = first + last;
  out[1] = first - last;
}

template <typename T>
constexpr fft::RowLoops<T> table() {
  return {&split<T>, &across<T>, &unpack_row<T>, &pack_row<T>};
}

}  // namespace

extern const fft::RowLoops<float> FLAMBEAU_LOOPS(fft_rows_float)[1];
const fft::RowLoops<float> FLAMBEAU_LOOPS(fft_rows_float)[1] = {table<float>()};
extern const fft::RowLoops<double> FLAMBEAU_LOOPS(fft_rows_double)[1];
const fft::RowLoops<double> FLAMBEAU_LOOPS(fft_rows_double)[1] = {table<double>()};

}  // namespace flambeau::loops
