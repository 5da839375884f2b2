// Passes of the fast Fourier transform, decimating in frequency (Gentleman & Sande 1966), and the
// movements around them, compiled once per instruction set. Passes are in place but for the last,
// which writes each output to where it belongs.
#include "aten/ops/fft/fft_loops.h"

#include "aten/ops/fft/loops/tiles.h"

namespace flambeau::loops {
namespace {

using fft::Layout;
using fft::Pass;

// The type of a vector's elements.
template <typename V>
using element_t = __typeof__(V{}[0]);

template <typename T>
struct Value {
  T re, im;
};
template <typename T>
[[gnu::always_inline]] inline Value<T> operator+(Value<T> a, Value<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
[[gnu::always_inline]] inline Value<T> operator-(Value<T> a, Value<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename T, typename U>
[[gnu::always_inline]] inline Value<T> operator*(Value<T> a, Value<U> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T, typename S>
[[gnu::always_inline]] inline Value<T> scaled(Value<T> a, S s) {
  return {a.re * s, a.im * s};
}
// -i a
template <typename T>
[[gnu::always_inline]] inline Value<T> turned(Value<T> a) {
  return {a.im, -a.re};
}

// v[t] becomes the sum over i of v[i] e^(-2 pi i t / R).
template <int R>
struct Butterfly;

template <>
struct Butterfly<2> {
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    const Value<V> a = v[0], b = v[1];
    v[0] = a + b;
    v[1] = a - b;
  }
};
template <>
struct Butterfly<3> {
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    const Value<V> sum = v[1] + v[2], middle = v[0] - scaled(sum, element_t<V>(0.5));
    const Value<V> side =
        turned(scaled(v[1] - v[2], element_t<V>(0.866025403784438646763723170752936183)));
    v[0] = v[0] + sum;
    v[1] = middle + side;
    v[2] = middle - side;
  }
};
template <>
struct Butterfly<4> {
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    const Value<V> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
};
template <>
struct Butterfly<5> {
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    constexpr element_t<V> kCos1 = element_t<V>(0.309016994374947424102293417182819059);
    constexpr element_t<V> kCos2 = element_t<V>(-0.809016994374947424102293417182819059);
    constexpr element_t<V> kSin1 = element_t<V>(0.951056516295153572116439333379382143);
    constexpr element_t<V> kSin2 = element_t<V>(0.587785252292473129168705954639072769);
    const Value<V> s1 = v[1] + v[4], d1 = v[1] - v[4], s2 = v[2] + v[3], d2 = v[2] - v[3];
    const Value<V> m1 = v[0] + scaled(s1, kCos1) + scaled(s2, kCos2);
    const Value<V> m2 = v[0] + scaled(s1, kCos2) + scaled(s2, kCos1);
    const Value<V> n1 = turned(scaled(d1, kSin1) + scaled(d2, kSin2));
    const Value<V> n2 = turned(scaled(d1, kSin2) - scaled(d2, kSin1));
    v[0] = v[0] + s1 + s2;
    v[1] = m1 + n1;
    v[2] = m2 + n2;
    v[3] = m2 - n2;
    v[4] = m1 - n1;
  }
};
template <>
struct Butterfly<8> {
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    constexpr element_t<V> kHalfRoot = element_t<V>(0.707106781186547524400844362104849039);
    Value<V> even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    Butterfly<4>::apply(even);
    Butterfly<4>::apply(odd);
    const Value<V> o1 = scaled(odd[1] + turned(odd[1]), kHalfRoot);
    const Value<V> o2 = turned(odd[2]);
    const Value<V> o3 = scaled(turned(odd[3]) - odd[3], kHalfRoot);
    v[0] = even[0] + odd[0];
    v[4] = even[0] - odd[0];
    v[1] = even[1] + o1;
    v[5] = even[1] - o1;
    v[2] = even[2] + o2;
    v[6] = even[2] - o2;
    v[3] = even[3] + o3;
    v[7] = even[3] - o3;
  }
};

template <typename T>
[[gnu::always_inline]] inline Value<Vector<T>> load(const T* re, const T* im) {
  return {*reinterpret_cast<const Stored<T>*>(re), *reinterpret_cast<const Stored<T>*>(im)};
}
template <typename T>
[[gnu::always_inline]] inline void store(Value<Vector<T>> v, T* re, T* im) {
  *reinterpret_cast<Stored<T>*>(re) = v.re;
  *reinterpret_cast<Stored<T>*>(im) = v.im;
}

// Vectors of one butterfly: real and imaginary parts, `apart` elements between neighbours.
template <typename T>
struct Points {
  T* re;
  T* im;
  int64_t apart;
  Points at(int64_t vector) const {
    return {re + vector * kLanes<T>, im + vector * kLanes<T>, apart};
  }
};

// One butterfly; the first one's twiddles are all 1. Packs instead of loops over the radix: arrays
// that are indexed by a loop would stay in memory.
template <bool kFirst, typename T, int... I>
[[gnu::always_inline]] inline void butterfly(Points<T> from, const T* twiddles, Points<T> to,
                                             Pack<I...>) {
  constexpr int radix = sizeof...(I);
  Value<Vector<T>> v[radix] = {load<T>(from.re + I * from.apart, from.im + I * from.apart)...};
  Butterfly<radix>::apply(v);
  const T* w = twiddles - 2;  // of I = 0, which has none
  (store<T>(kFirst || I == 0 ? v[I] : v[I] * Value<T>{w[2 * I], w[2 * I + 1]}, to.re + I * to.apart,
            to.im + I * to.apart),
   ...);
}
// Any radix by its definition: for the few primes between those above and those that Bluestein's
// algorithm takes. Outputs wait until all inputs are read.
template <typename T>
void butterfly_by_definition(const Pass<T>& p, Points<T> from, const T* twiddles, Points<T> to) {
  const int64_t radix = p.radix;
  alignas(64) T re[fft::kLargestRadix][kLanes<T>], im[fft::kLargestRadix][kLanes<T>];
  for (int64_t t = 0; t < radix; ++t) {
    T sum_re[kLanes<T>], sum_im[kLanes<T>];
    for (int64_t j = 0; j < kLanes<T>; ++j) sum_re[j] = from.re[j], sum_im[j] = from.im[j];
    for (int64_t i = 1, power = t; i < radix;
         ++i, power = power + t < radix ? power + t : power + t - radix) {
      const T c = p.roots[2 * power], s = p.roots[2 * power + 1];
      const T *a = from.re + i * from.apart, *d = from.im + i * from.apart;
#pragma omp simd
      for (int64_t j = 0; j < kLanes<T>; ++j) {
        sum_re[j] += a[j] * c - d[j] * s;
        sum_im[j] += a[j] * s + d[j] * c;
      }
    }
    const bool plain = t == 0 || !twiddles;
    const T c = plain ? T(1) : twiddles[2 * t - 2], s = plain ? T(0) : twiddles[2 * t - 1];
#pragma omp simd
    for (int64_t j = 0; j < kLanes<T>; ++j) {
      re[t][j] = sum_re[j] * c - sum_im[j] * s;
      im[t][j] = sum_re[j] * s + sum_im[j] * c;
    }
  }
  for (int64_t t = 0; t < radix; ++t) {
    for (int64_t j = 0; j < kLanes<T>; ++j) {
      to.re[t * to.apart + j] = re[t][j];
      to.im[t * to.apart + j] = im[t][j];
    }
  }
}

// All butterflies of a pass, in place; each yields one element of every part.
template <int R, typename T>
void pass(const Pass<T>& p, Points<T> x) {
  constexpr typename Indices<R>::Type each;
  x.apart = p.blocks * kLanes<T>;
  butterfly<true>(x, p.twiddles, x, each);
  for (int64_t b = 1; b < p.blocks; ++b)
    butterfly<false>(x.at(b), p.twiddles + 2 * b * (R - 1), x.at(b), each);
}
template <typename T>
void pass_by_definition(const Pass<T>& p, Points<T> x) {
  x.apart = p.blocks * kLanes<T>;
  for (int64_t b = 0; b < p.blocks; ++b)
    butterfly_by_definition(p, x.at(b), p.twiddles + 2 * b * (p.radix - 1), x.at(b));
}
// The last pass over `count` parts of one butterfly each: outputs go to their places, those of
// part j from to.at(j * step) on.
template <int R, typename T>
void last_pass(const Pass<T>& p, int64_t count, Points<T> x, Points<T> to, int64_t step) {
  constexpr typename Indices<R>::Type each;
  x.apart = kLanes<T>;
  to.apart = p.run * kLanes<T>;
  for (int64_t j = 0; j < count; ++j)
    butterfly<true>(x.at(j * R), p.twiddles, to.at(j * step), each);
}
template <typename T>
void last_pass_by_definition(const Pass<T>& p, int64_t count, Points<T> x, Points<T> to,
                             int64_t step) {
  x.apart = kLanes<T>;
  to.apart = p.run * kLanes<T>;
  for (int64_t j = 0; j < count; ++j)
    butterfly_by_definition<T>(p, x.at(j * p.radix), nullptr, to.at(j * step));
}

// f.operator()<R>() for the radixes that have a butterfly of their own, else <0>.
template <typename F>
[[gnu::always_inline]] inline void with_radix(int64_t radix, const F& f) {
  switch (radix) {
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    case 8:
      return f.template operator()<8>();
    default:
      return f.template operator()<0>();
  }
}
template <typename T>
void one_pass(const Pass<T>& p, Points<T> x) {
  with_radix(p.radix, [&]<int R>() {
    if constexpr (R == 0) {
      pass_by_definition(p, x);
    } else {
      pass<R>(p, x);
    }
  });
}
template <typename T>
void finish(const Pass<T>& p, int64_t count, Points<T> x, Points<T> to, int64_t step) {
  with_radix(p.radix, [&]<int R>() {
    if constexpr (R == 0) {
      last_pass_by_definition(p, count, x, to, step);
    } else {
      last_pass<R>(p, count, x, to, step);
    }
  });
}

// A pass leaves `radix` transforms that lie one after the other. Each is finished before the next,
// so that most passes find their elements in the first cache.
template <typename T>
void descend(const Pass<T>* passes, int64_t count, Points<T> x, Points<T> to) {
  const Pass<T>& p = passes[0];
  if (count == 1) return finish(p, 1, x, to, 0);
  one_pass(p, x);
  if (count == 2) return finish(passes[1], p.radix, x, to, p.run);
  for (int64_t t = 0; t < p.radix; ++t)
    descend(passes + 1, count - 1, x.at(t * p.blocks), to.at(t * p.run));
}

template <typename T>
void run(const Pass<T>* passes, int64_t count, T* re, T* im, T* out_re, T* out_im) {
  descend(passes, count, Points<T>{re, im, 0}, Points<T>{out_re, out_im, 0});
}

// --- between memory and lanes

// Whether lanes are rows of complex numbers, maybe with the parts exchanged.
inline bool has_rows(Layout l) {
  return l.has_imaginary && l.step == 2 && (l.imaginary == 1 || l.imaginary == -1);
}

// Elements whose lanes stay in the first cache while one lane after the other is walked.
constexpr int64_t kTile = 64;

template <typename T>
void gather(const T* in, Layout l, int64_t n, int64_t lanes, T* re, T* im) {
  constexpr int64_t width = kLanes<T>;
  if (lanes < width || !l.has_imaginary) {
    for (int64_t i = 0; i < n * width; ++i) re[i] = im[i] = 0;
  }
  int64_t done = 0;
  if (lanes == width && has_rows(l)) {
    const bool exchanged = l.imaginary < 0;
    for (; done + kUnits<T> <= n; done += kUnits<T>) {
      T *even = (exchanged ? im : re) + done * width, *odd = (exchanged ? re : im) + done * width;
      load_tile(in - (exchanged ? 1 : 0) + done * l.step, l.lane_step, even, odd);
    }
  }
  for (int64_t first = done; first < n; first += kTile) {
    const int64_t last = first + kTile < n ? first + kTile : n;
    if (lanes == width && l.lane_step <= 2 && l.has_imaginary) {
      for (int64_t k = first; k < last; ++k) {
        const T *x = in + k * l.step, *y = x + l.imaginary;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          re[k * width + j] = x[j * l.lane_step];
          im[k * width + j] = y[j * l.lane_step];
        }
      }
      continue;
    }
    for (int64_t j = 0; j < lanes; ++j) {
      const T* x = in + j * l.lane_step;
      for (int64_t k = first; k < last; ++k) re[k * width + j] = x[k * l.step];
      if (!l.has_imaginary) continue;
      for (int64_t k = first; k < last; ++k) im[k * width + j] = x[k * l.step + l.imaginary];
    }
  }
}

template <typename T>
void scatter(const T* re, const T* im, Layout l, int64_t n, int64_t lanes, T scale, T* out) {
  constexpr int64_t width = kLanes<T>;
  int64_t done = 0;
  if (lanes == width && has_rows(l)) {
    const bool exchanged = l.imaginary < 0;
    for (; done + kUnits<T> <= n; done += kUnits<T>) {
      const T* even = (exchanged ? im : re) + done * width;
      const T* odd = (exchanged ? re : im) + done * width;
      store_tile(even, odd, scale, l.lane_step, out - (exchanged ? 1 : 0) + done * l.step);
    }
  }
  for (int64_t first = done; first < n; first += kTile) {
    const int64_t last = first + kTile < n ? first + kTile : n;
    if (lanes == width && l.lane_step <= 2 && l.has_imaginary) {
      for (int64_t k = first; k < last; ++k) {
        T *x = out + k * l.step, *y = x + l.imaginary;
        for (int64_t j = 0; j < width; ++j) {
          x[j * l.lane_step] = re[k * width + j] * scale;
          y[j * l.lane_step] = im[k * width + j] * scale;
        }
      }
      continue;
    }
    for (int64_t j = 0; j < lanes; ++j) {
      T* x = out + j * l.lane_step;
      for (int64_t k = first; k < last; ++k) x[k * l.step] = re[k * width + j] * scale;
      if (!l.has_imaginary) continue;
      for (int64_t k = first; k < last; ++k)
        x[k * l.step + l.imaginary] = im[k * width + j] * scale;
    }
  }
}

template <typename T>
void multiply(int64_t n, const T* factors, T* re, T* im) {
  for (int64_t k = 0; k < n; ++k) {
    const Value<T> w{factors[2 * k], factors[2 * k + 1]};
    T *x = re + k * kLanes<T>, *y = im + k * kLanes<T>;
#pragma omp simd
    for (int64_t j = 0; j < kLanes<T>; ++j) {
      const Value<T> v = Value<T>{x[j], y[j]} * w;
      x[j] = v.re;
      y[j] = v.im;
    }
  }
}

template <typename T>
void twist(int64_t n, const T* starts, const T* steps, T* re, T* im) {
  for (int64_t k = 0; k < n; ++k) {
    const Value<T> start{starts[2 * k], starts[2 * k + 1]};
    const T *c = steps + 2 * k * kLanes<T>, *s = c + kLanes<T>;
    T *x = re + k * kLanes<T>, *y = im + k * kLanes<T>;
#pragma omp simd
    for (int64_t j = 0; j < kLanes<T>; ++j) {
      const Value<T> v = Value<T>{x[j], y[j]} * (start * Value<T>{c[j], s[j]});
      x[j] = v.re;
      y[j] = v.im;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline Value<T> conjugate(Value<T> a) {
  return {a.re, -a.im};
}

// sum + turn goes to k and conj(sum - turn) to h - k, with sum = (A[k] + conj A[h-k]) scale and
// turn = (A[k] - conj A[h-k]) factor(k): both elements of a pair follow from the same two numbers.
template <typename T, typename Factor>
[[gnu::always_inline]] inline void combine_pairs(int64_t half, T* re, T* im, T scale,
                                                 const Factor& factor) {
  constexpr int64_t width = kLanes<T>;
  for (int64_t k = 1; 2 * k <= half; ++k) {
    T *a_re = re + k * width, *a_im = im + k * width;
    T *b_re = re + (half - k) * width, *b_im = im + (half - k) * width;
    const Value<Vector<T>> a = load<T>(a_re, a_im), b = conjugate(load<T>(b_re, b_im));
    const Value<Vector<T>> sum = scaled(a + b, scale), turn = (a - b) * factor(k);
    store<T>(conjugate(sum - turn), b_re, b_im);
    store<T>(sum + turn, a_re, a_im);
  }
}

// X[k] = (Z[k] + conj Z[h-k]) / 2 - i w^k (Z[k] - conj Z[h-k]) / 2, with Z[h] = Z[0]. X[0] and X[h]
// are real whatever rounding says.
template <typename T>
void unpack(int64_t half, const T* roots, T* re, T* im) {
  const Value<Vector<T>> first = load<T>(re, im);
  store<T>({first.re + first.im, Vector<T>{}}, re, im);
  store<T>({first.re - first.im, Vector<T>{}}, re + half * kLanes<T>, im + half * kLanes<T>);
  combine_pairs(half, re, im, T(0.5), [=](int64_t k) {
    return turned(Value<T>{T(0.5) * roots[2 * k], T(0.5) * roots[2 * k + 1]});
  });
}

// Z[k] = X[k] + conj X[h-k] + i w^-k (X[k] - conj X[h-k]); the imaginary parts of X[0] and X[h]
// count as 0. Without the factor 1/2, so that the backward transform of Z is that of X, unscaled.
template <typename T>
void pack(int64_t half, const T* roots, T* re, T* im) {
  const Vector<T> first = load<T>(re, im).re;
  const Vector<T> last = load<T>(re + half * kLanes<T>, im + half * kLanes<T>).re;
  combine_pairs(half, re, im, T(1), [=](int64_t k) {
    return Value<T>{roots[2 * k + 1], roots[2 * k]};  // i conj(w^k)
  });
  store<T>({first + last, first - last}, re, im);
}

template <typename T>
constexpr fft::Loops<T> table() {
  return {&run<T>, &gather<T>, &scatter<T>, &multiply<T>, &twist<T>, &unpack<T>, &pack<T>};
}

}  // namespace

extern const fft::Loops<float> FLAMBEAU_LOOPS(fft_float)[1];
const fft::Loops<float> FLAMBEAU_LOOPS(fft_float)[1] = {table<float>()};
extern const fft::Loops<double> FLAMBEAU_LOOPS(fft_double)[1];
const fft::Loops<double> FLAMBEAU_LOOPS(fft_double)[1] = {table<double>()};

}  // namespace flambeau::loops
