#pragma once
// Complex numbers usable in host and device code without the cost of <complex>.
#include <type_traits>

#include "c10/core/namespace.h"

#ifdef __CUDACC__
#define FLAMBEAU_HOST_DEVICE __host__ __device__
#else
// Loops are compiled once per instruction set and share these definitions: an out-of-line copy made
// with AVX-512 must never serve the others.
#define FLAMBEAU_HOST_DEVICE [[gnu::always_inline]]
#endif

namespace flambeau::c10 {

// A product before it is added. In vectors of complex numbers GCC 12 fuses products and sums in
// spite of -ffp-contract=off, and the imaginary part of z * conj(z) would not be 0.
template <typename T>
FLAMBEAU_HOST_DEVICE constexpr T rounded(T product) {
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_assoc_barrier)
  if constexpr (std::is_floating_point_v<T>) return __builtin_assoc_barrier(product);
#endif
#endif
  return product;
}

template <typename T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T re = 0;
  T im = 0;

  constexpr complex() = default;
  FLAMBEAU_HOST_DEVICE constexpr complex(T real, T imag = T(0)) : re(real), im(imag) {}  // NOLINT
  template <typename U>
  FLAMBEAU_HOST_DEVICE constexpr explicit complex(const complex<U>& o)
      : re(static_cast<T>(o.re)), im(static_cast<T>(o.im)) {}

  FLAMBEAU_HOST_DEVICE constexpr T real() const { return re; }
  FLAMBEAU_HOST_DEVICE constexpr T imag() const { return im; }

  FLAMBEAU_HOST_DEVICE friend constexpr complex operator+(complex a, complex b) {
    return {a.re + b.re, a.im + b.im};
  }
  FLAMBEAU_HOST_DEVICE friend constexpr complex operator-(complex a, complex b) {
    return {a.re - b.re, a.im - b.im};
  }
  FLAMBEAU_HOST_DEVICE friend constexpr complex operator-(complex a) { return {-a.re, -a.im}; }
  FLAMBEAU_HOST_DEVICE friend constexpr complex operator*(complex a, complex b) {
    return {rounded(a.re * b.re) - rounded(a.im * b.im),
            rounded(a.re * b.im) + rounded(a.im * b.re)};
  }
  // Smith's algorithm (CACM 1962): scales by the larger component, so neither overflows early.
  FLAMBEAU_HOST_DEVICE friend constexpr complex operator/(complex a, complex b) {
    const T abs_re = b.re < 0 ? -b.re : b.re;
    const T abs_im = b.im < 0 ? -b.im : b.im;
    if (abs_re >= abs_im) {
      if (abs_re == 0 && abs_im == 0) return {a.re / abs_re, a.im / abs_im};
      const T ratio = b.im / b.re;
      const T scale = T(1) / (b.re + rounded(b.im * ratio));
      return {(a.re + rounded(a.im * ratio)) * scale, (a.im - rounded(a.re * ratio)) * scale};
    }
    const T ratio = b.re / b.im;
    const T scale = T(1) / (rounded(b.re * ratio) + b.im);
    return {(rounded(a.re * ratio) + a.im) * scale, (rounded(a.im * ratio) - a.re) * scale};
  }
  FLAMBEAU_HOST_DEVICE friend constexpr bool operator==(complex a, complex b) {
    return a.re == b.re && a.im == b.im;
  }
  FLAMBEAU_HOST_DEVICE constexpr complex& operator+=(complex o) { return *this = *this + o; }
  FLAMBEAU_HOST_DEVICE constexpr complex& operator-=(complex o) { return *this = *this - o; }
  FLAMBEAU_HOST_DEVICE constexpr complex& operator*=(complex o) { return *this = *this * o; }
  FLAMBEAU_HOST_DEVICE constexpr complex& operator/=(complex o) { return *this = *this / o; }
};

template <typename T>
struct is_complex : std::false_type {};
template <typename T>
struct is_complex<complex<T>> : std::true_type {};
template <typename T>
inline constexpr bool is_complex_v = is_complex<T>::value;

}  // namespace flambeau::c10
