#pragma once
// One element converted between dtypes: what casts and generated kernels do alike. In an unnamed
// namespace, as files that are compiled once per instruction set include it.
#include <cstdint>
#include <type_traits>

#include "c10/core/complex.h"
#include "c10/core/float8.h"
#include "c10/core/half.h"
#include "c10/core/stored_bool.h"

namespace flambeau::loops {
namespace {

template <typename T>
constexpr bool is_half =
    __is_same(T, c10::Half) || __is_same(T, c10::BFloat16) || c10::is_float8<T>;

template <typename To, typename From>
inline To convert(From x) {
  if constexpr (__is_same(To, From)) {
    return x;
  } else if constexpr (is_half<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (c10::is_complex_v<From>) {
    if constexpr (c10::is_complex_v<To>) {
      return To(x);
    } else if constexpr (c10::is_bool<To>) {
      return (x.re != 0) | (x.im != 0);
    } else {
      return convert<To>(x.re);
    }
  } else if constexpr (c10::is_complex_v<To>) {
    return To(static_cast<typename To::value_type>(x));
  } else if constexpr (is_half<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (c10::is_bool<To>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && __is_same(To, uint32_t)) {
    return static_cast<To>(static_cast<int64_t>(x));  // negative numbers wrap
  } else if constexpr (std::is_floating_point_v<From> && __is_same(To, uint64_t)) {
    return x < 0 ? static_cast<To>(static_cast<int64_t>(x)) : static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    // Through int32, as the vector instructions do: small integers wrap alike in both.
    return static_cast<To>(static_cast<int32_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace
}  // namespace flambeau::loops
