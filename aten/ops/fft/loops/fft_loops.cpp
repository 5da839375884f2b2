// Passes of the fast Fourier transform, decimating in frequency, and the movements around them,
// compiled once per instruction set. All passes except the last are in place; the last writes each
// output to its final place.
// Formula: a pass of radix r: r sums over elements n / r apart, each times a twiddle e^(-+2 pi i jk
// / n).
// Accumulates in: the input's precision, with twiddles rounded from double.
// NaN, infinity: both spread over their sequence.
// Error: that of fft_cpu.cpp: 1 eps of the norm per pass, and as much for the twiddles.
// Source: Gentleman & Sande 1966.
#include "aten/ops/fft/fft_loops.h"

#include "aten/ops/fft/loops/butterflies.h"

namespace flambeau::loops {
namespace {

using fft::Layout;
using fft::Pass;

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
    case 7:
      return f.template operator()<7>();
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
// Whether they are columns of them.
inline bool has_columns(Layout l) {
  return l.has_imaginary && l.lane_step == 2 && (l.imaginary == 1 || l.imaginary == -1);
}

// Elements whose lanes stay in the first cache while one lane after the other is walked.
constexpr int64_t kTile = 64;

// Where the even and odd elements of memory belong, and where memory begins.
template <typename T>
struct Parts {
  T *even, *odd;
  int64_t shift;
  Parts(T* re, T* im, Layout l)
      : even(l.imaginary < 0 ? im : re),
        odd(l.imaginary < 0 ? re : im),
        shift(l.imaginary < 0 ? 1 : 0) {}
};

template <typename T>
void gather_groups(const T* in, Layout l, int64_t n, int64_t groups, T* const* re, T* const* im) {
  constexpr int64_t width = kLanes<T>;
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t g = 0; g < groups; ++g) {
      const Parts<T> to(re[g], im[g], l);
      load_numbers(in - to.shift + k * l.step + 2 * g * width, to.even + k * width,
                   to.odd + k * width);
    }
  }
}

template <typename T>
void scatter_groups(T* const* re, T* const* im, Layout l, int64_t n, int64_t groups, T scale,
                    T* out) {
  constexpr int64_t width = kLanes<T>;
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t g = 0; g < groups; ++g) {
      const Parts<T> from(re[g], im[g], l);
      store_numbers<T>(from.even + k * width, from.odd + k * width, scale,
                       out - from.shift + k * l.step + 2 * g * width);
    }
  }
}

template <typename T>
void gather(const T* in, Layout l, int64_t n, int64_t lanes, T* re, T* im) {
  constexpr int64_t width = kLanes<T>;
  if (lanes == width && has_columns(l)) return gather_groups(in, l, n, 1, &re, &im);
  if (lanes < width || !l.has_imaginary) {
    for (int64_t i = 0; i < n * width; ++i) re[i] = im[i] = 0;
  }
  int64_t done = 0;
  if (lanes == width && has_rows(l)) {
    const Parts<T> to(re, im, l);
    for (; done + kUnits<T> <= n; done += kUnits<T>) {
      load_tile(in - to.shift + done * l.step, l.lane_step, to.even + done * width,
                to.odd + done * width);
    }
  }
  for (int64_t first = done; first < n; first += kTile) {
    const int64_t last = first + kTile < n ? first + kTile : n;
    for (int64_t j = 0; j < lanes; ++j) {
      const int64_t lane = lane_of<T>(static_cast<int>(j));
      const T* x = in + j * l.lane_step;
      for (int64_t k = first; k < last; ++k) re[k * width + lane] = x[k * l.step];
      if (!l.has_imaginary) continue;
      for (int64_t k = first; k < last; ++k) im[k * width + lane] = x[k * l.step + l.imaginary];
    }
  }
}

template <typename T>
void scatter(T* re, T* im, Layout l, int64_t n, int64_t lanes, T scale, T* out) {
  constexpr int64_t width = kLanes<T>;
  if (lanes == width && has_columns(l)) return scatter_groups(&re, &im, l, n, 1, scale, out);
  int64_t done = 0;
  if (lanes == width && has_rows(l)) {
    const Parts<T> from(re, im, l);
    for (; done + kUnits<T> <= n; done += kUnits<T>) {
      store_tile<T>(from.even + done * width, from.odd + done * width, scale, l.lane_step,
                    out - from.shift + done * l.step);
    }
  }
  for (int64_t first = done; first < n; first += kTile) {
    const int64_t last = first + kTile < n ? first + kTile : n;
    for (int64_t j = 0; j < lanes; ++j) {
      const int64_t lane = lane_of<T>(static_cast<int>(j));
      T* x = out + j * l.lane_step;
      for (int64_t k = first; k < last; ++k) x[k * l.step] = re[k * width + lane] * scale;
      if (!l.has_imaginary) continue;
      for (int64_t k = first; k < last; ++k)
        x[k * l.step + l.imaginary] = im[k * width + lane] * scale;
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
  return {kLanes<T>,   &number_in<T>, &run<T>,   &gather<T>, &gather_groups<T>, &scatter_groups<T>,
          &scatter<T>, &multiply<T>,  &twist<T>, &unpack<T>, &pack<T>};
}

}  // namespace

extern const fft::Loops<float> FLAMBEAU_LOOPS(fft_float)[1];
const fft::Loops<float> FLAMBEAU_LOOPS(fft_float)[1] = {table<float>()};
extern const fft::Loops<double> FLAMBEAU_LOOPS(fft_double)[1];
const fft::Loops<double> FLAMBEAU_LOOPS(fft_double)[1] = {table<double>()};

}  // namespace flambeau::loops
