#pragma once
// Complex numbers of vectors, and butterflies of them. Part of the loop files, which are compiled
// once per instruction set.
#include "aten/ops/fft/loops/tiles.h"

namespace flambeau::loops {
namespace {

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
template <typename T>
[[gnu::always_inline]] inline Value<T> conjugate(Value<T> a) {
  return {a.re, -a.im};
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
struct Butterfly<7> {
  // Inputs that are added share their cosines, those that are subtracted their sines.
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    using T = element_t<V>;
    constexpr T kCos1 = T(0.623489801858733530525004884004239810);
    constexpr T kCos2 = T(-0.222520933956314404288902564496794759);
    constexpr T kCos3 = T(-0.900968867902419126236102319507445051);
    constexpr T kSin1 = T(0.781831482468029808708444526674057750);
    constexpr T kSin2 = T(0.974927912181823607018131682993931217);
    constexpr T kSin3 = T(0.433883739117558120475768332848358754);
    const Value<V> s1 = v[1] + v[6], d1 = v[1] - v[6], s2 = v[2] + v[5], d2 = v[2] - v[5],
                   s3 = v[3] + v[4], d3 = v[3] - v[4];
    const Value<V> m1 = v[0] + scaled(s1, kCos1) + scaled(s2, kCos2) + scaled(s3, kCos3);
    const Value<V> m2 = v[0] + scaled(s1, kCos2) + scaled(s2, kCos3) + scaled(s3, kCos1);
    const Value<V> m3 = v[0] + scaled(s1, kCos3) + scaled(s2, kCos1) + scaled(s3, kCos2);
    const Value<V> n1 = turned(scaled(d1, kSin1) + scaled(d2, kSin2) + scaled(d3, kSin3));
    const Value<V> n2 = turned(scaled(d1, kSin2) - scaled(d2, kSin3) - scaled(d3, kSin1));
    const Value<V> n3 = turned(scaled(d1, kSin3) - scaled(d2, kSin1) + scaled(d3, kSin2));
    v[0] = v[0] + s1 + s2 + s3;
    v[1] = m1 + n1;
    v[2] = m2 + n2;
    v[3] = m3 + n3;
    v[4] = m3 - n3;
    v[5] = m2 - n2;
    v[6] = m1 - n1;
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

template <>
struct Butterfly<16> {
  // Four by four: e^(-2 pi i t / 16) for t = 1, 2, 3 are the only roots that are not an exchange of
  // parts or equal ones.
  template <typename V>
  [[gnu::always_inline]] static void apply(Value<V>* v) {
    using T = element_t<V>;
    constexpr T kCos = T(0.923879532511286756128183189396788287);
    constexpr T kSin = T(0.382683432365089771728459984030398866);
    constexpr T kHalfRoot = T(0.707106781186547524400844362104849039);
    const Value<T> roots[4] = {{1, 0}, {kCos, -kSin}, {kHalfRoot, -kHalfRoot}, {kSin, -kCos}};
    Value<V> y[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      Value<V> column[4] = {v[i], v[i + 4], v[i + 8], v[i + 12]};
      Butterfly<4>::apply(column);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) y[k][i] = column[k];
    }
    y[1][1] = y[1][1] * roots[1];
    y[1][2] = y[1][2] * roots[2];
    y[1][3] = y[1][3] * roots[3];
    y[2][1] = y[2][1] * roots[2];
    y[2][2] = turned(y[2][2]);
    y[2][3] = turned(y[2][3] * roots[2]);
    y[3][1] = y[3][1] * roots[3];
    y[3][2] = turned(y[3][2] * roots[2]);
    y[3][3] = scaled(y[3][3] * roots[1], T(-1));
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Butterfly<4>::apply(y[k]);
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) v[k + 4 * t] = y[k][t];
    }
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

}  // namespace
}  // namespace flambeau::loops
