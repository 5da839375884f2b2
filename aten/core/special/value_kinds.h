#pragma once
// Kinds of values, by which the scalar functions of codegen/primitives.yaml choose an overload: the
// same on the host (aten/cpu/vecmath.h) and on a device (aten/cuda/vecmath.cuh). Types only, so
// that code of several instruction sets can share them.
#include "c10/core/complex.h"
#include "c10/core/stored_bool.h"

namespace flambeau::vec {

// Second arguments take the first one's type, as the small integers' sums are int in C++.
template <typename T>
struct Same {
  using type = T;
};
template <typename T>
using same_t = typename Same<T>::type;

// The type of the real part; T itself where T is real.
template <typename T>
struct RealOf {
  using type = T;
};
template <typename T>
struct RealOf<c10::complex<T>> {
  using type = T;
};
template <typename T>
using real_t = typename RealOf<T>::type;

template <typename T>
concept Floating = __is_same(T, float) || __is_same(T, double);
template <typename T>
concept Complex = c10::is_complex_v<T>;
template <typename T>
concept Boolean = c10::is_bool<T>;
template <typename T>
concept Lanewise = requires(T x) { x[0]; };  // a vector of numbers
template <typename T>
concept Integer = !Floating<T> && !Complex<T> && !Boolean<T> && !Lanewise<T>;
template <typename T>
concept Ordered = !Complex<T> && !Lanewise<T>;
template <typename T>
concept SignedInteger = Integer<T> && (T(-1) < T(0));

}  // namespace flambeau::vec
