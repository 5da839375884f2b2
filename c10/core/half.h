#pragma once
// IEEE binary16 and bfloat16 storage types. Arithmetic happens in float; only conversion is here.
// Rounding is to nearest, ties to even; NaN stays NaN; overflow goes to infinity.
#include <bit>
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

[[gnu::always_inline]] constexpr uint16_t half_bits_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5f aligns the wanted bits at the bottom and rounds to even in hardware.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

[[gnu::always_inline]] constexpr float float_from_half_bits(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

[[gnu::always_inline]] constexpr uint16_t bfloat16_bits_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Half {
  uint16_t bits = 0;
  constexpr Half() = default;
  [[gnu::always_inline]] constexpr Half(float value)
      : bits(half_bits_from_float(value)) {}  // NOLINT
  [[gnu::always_inline]] constexpr operator float() const {
    return float_from_half_bits(bits);
  }  // NOLINT
};

struct BFloat16 {
  uint16_t bits = 0;
  constexpr BFloat16() = default;
  [[gnu::always_inline]] constexpr BFloat16(float value)
      : bits(bfloat16_bits_from_float(value)) {}             // NOLINT
  [[gnu::always_inline]] constexpr operator float() const {  // NOLINT
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace flambeau::c10
