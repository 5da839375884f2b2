#pragma once
// An integer that orders elements as sorting does: numbers by value, -0 equal to 0, NaN above all
// and all NaN equal. Comparing keys needs no special cases and vectorises. Free of library headers
// and always inlined, for loop files are compiled once per instruction set.
#include "aten/core/loop_values.h"
#include "c10/core/half.h"

namespace flambeau {

template <typename T>
inline constexpr bool is_whole = loops::is_integer<T>() || c10::is_bool<T>;

// `nan`: the mask of the bits below the sign, which is also the key of NaN.
template <typename Key>
[[gnu::always_inline]] constexpr Key key_of_bits(Key bits, Key nan, Key infinity) {
  const Key magnitude = bits & nan;
  const Key value = bits & ~nan ? static_cast<Key>(-magnitude) : magnitude;
  return magnitude > infinity ? nan : value;
}

[[gnu::always_inline]] constexpr int32_t order_key(float v) {
  return key_of_bits<int32_t>(std::bit_cast<int32_t>(v), 0x7fffffff, 0x7f800000);
}
[[gnu::always_inline]] constexpr int64_t order_key(double v) {
  return key_of_bits<int64_t>(std::bit_cast<int64_t>(v), 0x7fffffffffffffff, 0x7ff0000000000000);
}
// The half types' keys fit in 16 bits; 32 spare the loops a second width.
[[gnu::always_inline]] constexpr int32_t order_key(c10::Half v) {
  return key_of_bits<int32_t>(v.bits, 0x7fff, 0x7c00);
}
[[gnu::always_inline]] constexpr int32_t order_key(c10::BFloat16 v) {
  return key_of_bits<int32_t>(v.bits, 0x7fff, 0x7f80);
}
template <typename T>
  requires(is_whole<T>)
[[gnu::always_inline]] constexpr auto order_key(T v) {
  if constexpr (__is_same(T, uint64_t)) {
    return static_cast<int64_t>(v ^ uint64_t{1} << 63);  // the middle becomes 0
  } else if constexpr (__is_same(T, uint32_t)) {
    return static_cast<int32_t>(v ^ uint32_t{1} << 31);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<int64_t>(v);
  } else {
    return static_cast<int32_t>(v);
  }
}
// The opposite order, NaN still above all.
template <typename T>
[[gnu::always_inline]] constexpr auto reverse_key(T v) {
  const auto key = order_key(v);
  using Key = decltype(order_key(v));
  if constexpr (is_whole<T>) {
    return static_cast<Key>(~key);
  } else {
    constexpr Key kNan =
        sizeof(T) == 2 ? Key(0x7fff) : static_cast<Key>(~(Key(1) << (8 * sizeof(Key) - 1)));
    return key == kNan ? key : static_cast<Key>(-key);
  }
}

template <typename T>
using order_key_t = decltype(order_key(T()));

}  // namespace flambeau
