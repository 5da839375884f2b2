#pragma once
// Arithmetic of elements in handwritten kernels. Integers wrap around, as the framework promises;
// in C++ an overflow of a signed type is undefined. Generated loops are compiled with -fwrapv
// instead; handwritten files are not, so that sanitizers find overflows of sizes and offsets there.
#include <cstdint>
#include <type_traits>

namespace flambeau {

template <typename T>
[[gnu::always_inline]] inline T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return T(a + b);
  }
}

template <typename T>
[[gnu::always_inline]] inline T wrapping_product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return T(a * b);
  }
}

}  // namespace flambeau
