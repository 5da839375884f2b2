// Transforms of a few contiguous sequences by vectors of their own elements, compiled once per
// instruction set: the work before and after the transforms of their lanes (row_group.h), and the
// steps between a complex transform and a real one of twice as many elements.
// Formula: that of fft_cpu.cpp, as rows x columns transforms with twiddles between them.
// Accumulates in: the input's precision, with twiddles rounded from double.
// NaN, infinity: both spread over their sequence.
// Error: that of fft_cpu.cpp: at most 4 eps log2(2 n) of the norm.
// Source: Gentleman & Sande 1966.
#include "aten/ops/fft/fft_loops.h"
#include "aten/ops/fft/loops/butterflies.h"

namespace flambeau::loops {
namespace {

// The parts of the interleaved numbers of a, then b; the last number first if kReversed.
template <bool kReversed, typename V, int... I>
[[gnu::always_inline]] inline Value<V> parted(V a, V b, Pack<I...>) {
  constexpr int n = sizeof...(I);
  constexpr auto at = [](int i) { return 2 * (kReversed ? n - 1 - i : i); };
  return {__builtin_shufflevector(a, b, at(I)...), __builtin_shufflevector(a, b, (at(I) + 1)...)};
}
template <bool kReversed, typename T>
[[gnu::always_inline]] inline Value<Vector<T>> load_numbers(const T* in) {
  const auto* const from = reinterpret_cast<const Stored<T>*>(in);
  return parted<kReversed, Vector<T>>(from[0], from[1], Lanes<T>());
}
// Back.
template <bool kReversed, typename T, int... I>
[[gnu::always_inline]] inline void store_interleaved(Value<Vector<T>> v, T* out, Pack<I...>) {
  constexpr int n = sizeof...(I);
  constexpr auto at = [](int i, int half) {
    const int number = half * n / 2 + i / 2;
    return i % 2 * n + (kReversed ? n - 1 - number : number);
  };
  auto* const to = reinterpret_cast<Stored<T>*>(out);
  to[0] = __builtin_shufflevector(v.re, v.im, at(I, 0)...);
  to[1] = __builtin_shufflevector(v.re, v.im, at(I, 1)...);
}
template <bool kReversed, typename T>
[[gnu::always_inline]] inline void store_numbers(Value<Vector<T>> v, T* out) {
  store_interleaved<kReversed>(v, out, Lanes<T>());
}
template <typename V, int... I>
[[gnu::always_inline]] inline Value<V> reversed(Value<V> v, Pack<I...>) {
  constexpr int n = sizeof...(I);
  return {__builtin_shufflevector(v.re, v.re, (n - 1 - I)...),
          __builtin_shufflevector(v.im, v.im, (n - 1 - I)...)};
}

// Bytes: the next sequence is on its way while this one is transformed.
constexpr int64_t kAhead = 2048;
template <typename T>
[[gnu::always_inline]] inline void ask_ahead(const T* in) {
  const char* const ahead = reinterpret_cast<const char*>(in) + kAhead;
  __builtin_prefetch(ahead);
  __builtin_prefetch(ahead + kVectorBytes);
}

template <typename T>
void split(const T* in, int64_t vectors, T* re, T* im) {
  for (int64_t k = 0; k < vectors * kLanes<T>; k += kLanes<T>) {
    ask_ahead(in + 2 * k);
    store<T>(load_numbers<false>(in + 2 * k), re + k, im + k);
  }
}
template <typename T>
void join(const T* re, const T* im, int64_t vectors, T scale, T* out) {
  for (int64_t k = 0; k < vectors * kLanes<T>; k += kLanes<T>)
    store_numbers<false>(scaled(load<T>(re + k, im + k), scale), out + 2 * k);
}

// Transforms of the lanes where one butterfly is all, in place.
template <typename T, int... I>
[[gnu::always_inline]] inline void one_butterfly(int64_t rows, T* re, T* im, Pack<I...>) {
  constexpr int64_t n = kLanes<T>, count = sizeof...(I);
  for (int64_t r = 0; r < rows; ++r, re += count * n, im += count * n) {
    Value<Vector<T>> v[count] = {load<T>(re + I * n, im + I * n)...};
    Butterfly<static_cast<int>(count)>::apply(v);
    (store<T>(v[I], re + I * n, im + I * n), ...);
  }
}
template <typename T>
bool down(int64_t rows, int64_t count, T* re, T* im) {
  switch (count) {
    case 4:
      return one_butterfly(rows, re, im, typename Indices<4>::Type()), true;
    case 5:
      return one_butterfly(rows, re, im, typename Indices<5>::Type()), true;
    case 7:
      return one_butterfly(rows, re, im, typename Indices<7>::Type()), true;
    case 8:
      return one_butterfly(rows, re, im, typename Indices<8>::Type()), true;
    case 16:
      return one_butterfly(rows, re, im, typename Indices<16>::Type()), true;
    default:
      return false;
  }
}

// v[t]: output t of the transforms across the lanes of kLanes vectors, times the twiddles. Vectors
// behind `last` count as that one.
template <typename T, int... I>
[[gnu::always_inline]] inline void across_lanes(const T* re, const T* im, const T* twiddles,
                                                int last, Value<Vector<T>>* v, Pack<I...>) {
  constexpr int64_t n = kLanes<T>;
  const auto twisted = [&](int row) {
    const int64_t at = (row < last ? row : last) * n;
    return load<T>(re + at, im + at) * load<T>(twiddles + 2 * at, twiddles + 2 * at + n);
  };
  Vector<T> x[n], y[n];
  ((x[I] = twisted(I).re), ...);
  ((y[I] = twisted(I).im), ...);
  transpose_square<T>(x);
  transpose_square<T>(y);
  ((v[I] = {x[I], y[I]}), ...);
  Butterfly<static_cast<int>(n)>::apply(v);
}

// The lower or upper half of the lanes.
template <int kHalf, typename T, int... I>
[[gnu::always_inline]] inline void store_lanes(Vector<T> v, T* out, Pack<I...>) {
  constexpr int n = static_cast<int>(sizeof...(I));
  typedef T Stored __attribute__((vector_size(n * sizeof(T)), aligned(sizeof(T)), may_alias));
  *reinterpret_cast<Stored*>(out) = __builtin_shufflevector(v, v, (kHalf * n + I)...);
}
template <int kHalf, typename T>
[[gnu::always_inline]] inline void store_half(Value<Vector<T>> v, T* re, T* im) {
  constexpr typename Indices<static_cast<int>(kLanes<T>) / 2>::Type half;
  store_lanes<kHalf, T>(v.re, re, half);
  store_lanes<kHalf, T>(v.im, im, half);
}

// Sequences of fewer vectors than there are lanes, in one block. What is stored behind an output's
// last element belongs to the next output, which follows.
template <typename T, int... I>
void across_short(const T* re, const T* im, int64_t count, int64_t rows, const T* twiddles,
                  T* out_re, T* out_im, Pack<I...> each) {
  constexpr int64_t n = kLanes<T>;
  typedef __typeof__(Vector<T>{} < Vector<T>{}) Places;
  Value<Vector<T>> v[n];
  across_lanes(re, im, twiddles, static_cast<int>(rows * count - 1), v, each);
  if (2 * count == n) {
    (store_half<0>(v[I], out_re + I * count, out_im + I * count), ...);
    out_re += (count + 1) * n;
    out_im += (count + 1) * n;
    if (rows == 2) (store_half<1>(v[I], out_re + I * count, out_im + I * count), ...);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const Places from = (Places{I...} + static_cast<element_t<Places>>(r * count)) & (n - 1);
    const int64_t first = r * (count + 1) * n;
    (store<T>({__builtin_shuffle(v[I].re, from), __builtin_shuffle(v[I].im, from)},
              out_re + first + I * count, out_im + first + I * count),
     ...);
  }
}
template <typename T, int... I>
[[gnu::always_inline]] inline void across_block(const T* re, const T* im, int64_t apart,
                                                const T* twiddles, T* out_re, T* out_im,
                                                Pack<I...> each) {
  Value<Vector<T>> v[kLanes<T>];
  across_lanes(re, im, twiddles, static_cast<int>(kLanes<T>), v, each);
  (store<T>(v[I], out_re + I * apart, out_im + I * apart), ...);
}
template <typename T>
void across(const T* re, const T* im, int64_t count, int64_t rows, const T* twiddles, T* out_re,
            T* out_im) {
  constexpr int64_t n = kLanes<T>;
  if (count < n) return across_short(re, im, count, rows, twiddles, out_re, out_im, Lanes<T>());
  for (int64_t k = 0; k < count; k += n) {
    const int64_t at = k + n <= count ? k : count - n;  // the last block may overlap
    across_block(re + at * n, im + at * n, count, twiddles + 2 * at * n, out_re + at, out_im + at,
                 Lanes<T>());
  }
}

// pair(a, b, w) of the numbers k and half - k, w = roots[k], returns what becomes of them. Pairs
// around the middle may come twice, which changes nothing: input and output are apart.
template <typename T, typename Load, typename Pair>
[[gnu::always_inline]] inline void each_pair(int64_t half, const T* roots, const Load& load_pair,
                                             const Pair& pair) {
  const T* const imaginary = roots + half / 2 + kLanes<T>;
  for (int64_t k = 1; 2 * k <= half; k += kLanes<T>) {
    const int64_t other = half - k - kLanes<T> + 1;
    Value<Vector<T>> a, b;
    load_pair(k, other, a, b);
    pair(k, other, a, conjugate(b), load<T>(roots + k, imaginary + k));
  }
}

template <typename T>
void unpack(int64_t half, const T* roots, T scale, const T* re, const T* im, T* out) {
  const T by = T(0.5) * scale;
  out[0] = (re[0] + im[0]) * scale;
  out[2 * half] = (re[0] - im[0]) * scale;
  out[1] = out[2 * half + 1] = 0;
  each_pair(
      half, roots,
      [=](int64_t k, int64_t other, auto& a, auto& b) {
        a = load<T>(re + k, im + k);
        b = reversed(load<T>(re + other, im + other), Lanes<T>());
      },
      [=](int64_t k, int64_t other, auto a, auto b, auto w) {
        const auto sum = scaled(a + b, by), turn = turned(scaled(a - b, by) * w);
        store_numbers<false, T>(sum + turn, out + 2 * k);
        store_numbers<true, T>(conjugate(sum - turn), out + 2 * other);
      });
}

template <typename T>
void pack(int64_t half, const T* roots, const T* in, T* re, T* im) {
  re[0] = in[0] + in[2 * half];
  im[0] = in[0] - in[2 * half];
  each_pair(
      half, roots,
      [=](int64_t k, int64_t other, auto& a, auto& b) {
        ask_ahead(in + 2 * k);
        ask_ahead(in + 2 * other);
        a = load_numbers<false>(in + 2 * k);
        b = load_numbers<true>(in + 2 * other);
      },
      [=](int64_t k, int64_t other, auto a, auto b, auto w) {
        const auto sum = a + b, turn = turned((a - b) * conjugate(w));
        store<T>(sum - turn, re + k, im + k);
        store<T>(reversed(conjugate(sum + turn), Lanes<T>()), re + other, im + other);
      });
}

template <typename T>
constexpr fft::GroupLoops<T> table() {
  return {&split<T>, &join<T>, &down<T>, &across<T>, &unpack<T>, &pack<T>};
}

}  // namespace

extern const fft::GroupLoops<float> FLAMBEAU_LOOPS(fft_groups_float)[1];
const fft::GroupLoops<float> FLAMBEAU_LOOPS(fft_groups_float)[1] = {table<float>()};
extern const fft::GroupLoops<double> FLAMBEAU_LOOPS(fft_groups_double)[1];
const fft::GroupLoops<double> FLAMBEAU_LOOPS(fft_groups_double)[1] = {table<double>()};

}  // namespace flambeau::loops
