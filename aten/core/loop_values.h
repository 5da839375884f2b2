#pragma once
// Reading params, converting results and the neutral elements: what generated loops and device code
// share. Free of library headers; always inlined, for loop files are compiled once per instruction
// set.
#include "aten/core/loop_types.h"
#include "aten/core/special/value_kinds.h"
#include "c10/core/complex.h"
#include "c10/core/stored_bool.h"

namespace flambeau::loops {

using c10::complex;
using c10::is_complex_v;
using c10::stored_t;
using vec::real_t;

// The k-th param; each has a slot of 16 bytes.
template <typename T>
FLAMBEAU_HOST_DEVICE inline T param(const void* params, int k) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(params) + 16 * k);
}

// A value as the output's type; the real part where the output is real.
template <typename Out, typename Value>
FLAMBEAU_HOST_DEVICE inline Out store_as(Value value) {
  if constexpr (is_complex_v<Value> && !is_complex_v<Out>) {
    return static_cast<Out>(value.re);
  } else {
    return static_cast<Out>(value);
  }
}

template <typename T>
FLAMBEAU_HOST_DEVICE constexpr bool is_integer() {
  return !is_complex_v<T> && static_cast<real_t<T>>(0.5) == static_cast<real_t<T>>(0);
}

// The number of reduced elements, in the accumulator's type; a double where that is a small
// integer.
template <typename Acc>
FLAMBEAU_HOST_DEVICE inline auto count_as(int64_t elements) {
  if constexpr (is_complex_v<Acc>) {
    return Acc(static_cast<real_t<Acc>>(elements));
  } else if constexpr (sizeof(Acc) >= 4) {
    return static_cast<Acc>(elements);
  } else {
    return static_cast<double>(elements);
  }
}

// The neutral elements of max and min.
template <typename T>
FLAMBEAU_HOST_DEVICE constexpr T lowest() {
  if constexpr (c10::is_bool<T>) {
    return false;
  } else if constexpr (!is_integer<T>()) {
    return -T(__builtin_inf());
  } else if constexpr (T(-1) > T(0)) {
    return T(0);
  } else {
    return T(uint64_t{1} << (8 * sizeof(T) - 1));
  }
}
template <typename T>
FLAMBEAU_HOST_DEVICE constexpr T highest() {
  if constexpr (c10::is_bool<T>) {
    return true;
  } else if constexpr (!is_integer<T>()) {
    return T(__builtin_inf());
  } else {
    return T(~lowest<T>());
  }
}

}  // namespace flambeau::loops
