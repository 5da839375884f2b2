// Passes of the Stockham algorithm and the movements around them, compiled once per instruction
// set. A pass reads runs of elements that lie `radix` parts apart and writes the butterfly's
// outputs one after the other, so that no reordering is needed at the end (Cochran et al. 1967,
// "What is the fast Fourier transform?", section on self-sorting).
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
struct Arrays {
  const T* re;
  const T* im;
  T* out_re;
  T* out_im;
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

// One block; the first one's twiddles are all 1. Packs instead of loops over the radix: arrays that
// are indexed by a loop would stay in memory.
template <bool kFirst, typename T, int... I>
[[gnu::always_inline]] inline void block(const Pass<T>& p, int64_t b, Arrays<T> x, Pack<I...>) {
  constexpr int radix = sizeof...(I);
  const int64_t run = p.run * kLanes<T>, apart = p.blocks * run;
  const T *re = x.re + b * run, *im = x.im + b * run;
  T *out_re = x.out_re + b * radix * run, *out_im = x.out_im + b * radix * run;
  const T* twiddles = p.twiddles + 2 * (b * (radix - 1) - 1);
  const Value<T> w[radix] = {I == 0 ? Value<T>{T(1), T(0)}
                                    : Value<T>{twiddles[2 * I], twiddles[2 * I + 1]}...};
  for (int64_t i = 0; i < run; i += kLanes<T>) {
    Value<Vector<T>> v[radix] = {load<T>(re + I * apart + i, im + I * apart + i)...};
    Butterfly<radix>::apply(v);
    (store<T>(kFirst || I == 0 ? v[I] : v[I] * w[I], out_re + I * run + i, out_im + I * run + i),
     ...);
  }
}
template <int R, typename T>
void pass(const Pass<T>& p, Arrays<T> x) {
  constexpr typename Indices<R>::Type each;
  block<true>(p, 0, x, each);
  for (int64_t b = 1; b < p.blocks; ++b) block<false>(p, b, x, each);
}

// Any radix by its definition: for the few primes between the ones above and those that Bluestein's
// algorithm takes.
template <typename T>
void pass_by_definition(const Pass<T>& p, Arrays<T> x) {
  const int64_t run = p.run * kLanes<T>, apart = p.blocks * run, radix = p.radix;
  for (int64_t b = 0; b < p.blocks; ++b) {
    for (int64_t at = 0; at < run; at += kLanes<T>) {
      const T *re = x.re + b * run + at, *im = x.im + b * run + at;
      for (int64_t t = 0; t < radix; ++t) {
        T sum_re[kLanes<T>], sum_im[kLanes<T>];
        for (int64_t j = 0; j < kLanes<T>; ++j) sum_re[j] = re[j], sum_im[j] = im[j];
        for (int64_t i = 1, power = t; i < radix;
             ++i, power = power + t < radix ? power + t : power + t - radix) {
          const T c = p.roots[2 * power], s = p.roots[2 * power + 1];
          const T *a = re + i * apart, *d = im + i * apart;
#pragma omp simd
          for (int64_t j = 0; j < kLanes<T>; ++j) {
            sum_re[j] += a[j] * c - d[j] * s;
            sum_im[j] += a[j] * s + d[j] * c;
          }
        }
        const T* twiddle = p.twiddles + 2 * (b * (radix - 1) + t - 1);
        const Value<T> w = t == 0 ? Value<T>{T(1), T(0)} : Value<T>{twiddle[0], twiddle[1]};
        const int64_t to = (b * radix + t) * run + at;
#pragma omp simd
        for (int64_t j = 0; j < kLanes<T>; ++j) {
          x.out_re[to + j] = sum_re[j] * w.re - sum_im[j] * w.im;
          x.out_im[to + j] = sum_re[j] * w.im + sum_im[j] * w.re;
        }
      }
    }
  }
}

template <typename T>
void one_pass(const Pass<T>& p, Arrays<T> x) {
  switch (p.radix) {
    case 2:
      return pass<2>(p, x);
    case 3:
      return pass<3>(p, x);
    case 4:
      return pass<4>(p, x);
    case 5:
      return pass<5>(p, x);
    case 8:
      return pass<8>(p, x);
    default:
      return pass_by_definition(p, x);
  }
}

template <typename T>
void run(const Pass<T>* passes, int64_t count, T* re, T* im, T* work_re, T* work_im) {
  Arrays<T> x{re, im, work_re, work_im};
  int64_t n = 1;
  for (int64_t i = 0; i < count; ++i) {
    one_pass(passes[i], x);
    n *= passes[i].radix;
    x = {x.out_re, x.out_im, const_cast<T*>(x.re), const_cast<T*>(x.im)};
  }
  if (x.re == re) return;
  __builtin_memcpy(re, x.re, static_cast<uint64_t>(n * kLanes<T>) * sizeof(T));
  __builtin_memcpy(im, x.im, static_cast<uint64_t>(n * kLanes<T>) * sizeof(T));
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

// X[k] = (Z[k] + conj Z[h-k]) / 2 - i w^k (Z[k] - conj Z[h-k]) / 2, with Z[h] = Z[0].
template <typename T>
void unpack(int64_t half, const T* roots, const T* re, const T* im, T* out_re, T* out_im) {
  constexpr int64_t width = kLanes<T>;
  for (int64_t k = 0; k <= half; ++k) {
    const int64_t a = (k < half ? k : 0) * width, b = (k > 0 ? half - k : 0) * width,
                  to = k * width;
    const Value<T> w{T(0.5) * roots[2 * k], T(0.5) * roots[2 * k + 1]};
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const Value<T> z{re[a + j], im[a + j]}, mirror{re[b + j], -im[b + j]};
      const Value<T> x = scaled(z + mirror, T(0.5)) + turned((z - mirror) * w);
      out_re[to + j] = x.re;
      out_im[to + j] = x.im;
    }
  }
  // These two are real whatever rounding says.
  for (int64_t j = 0; j < width; ++j) out_im[j] = out_im[half * width + j] = 0;
}

// Z[k] = X[k] + conj X[h-k] + i w^-k (X[k] - conj X[h-k]); the imaginary parts of X[0] and X[h]
// count as 0. Without the factor 1/2, so that the backward transform of Z is that of X, unscaled.
template <typename T>
void pack(int64_t half, const T* roots, const T* re, const T* im, T* out_re, T* out_im) {
  constexpr int64_t width = kLanes<T>;
  for (int64_t k = 0; k < half; ++k) {
    const int64_t a = k * width, b = (half - k) * width;
    const T keep = k == 0 ? T(0) : T(1);
    const Value<T> w{roots[2 * k], -roots[2 * k + 1]};
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const Value<T> x{re[a + j], keep * im[a + j]}, mirror{re[b + j], -keep * im[b + j]};
      const Value<T> odd = (x - mirror) * w;
      out_re[a + j] = x.re + mirror.re - odd.im;
      out_im[a + j] = x.im + mirror.im + odd.re;
    }
  }
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
