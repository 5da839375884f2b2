#pragma once
// Floating types of one byte: storage only, as the half types are. Conversion goes through float,
// rounds to nearest, ties to even, and keeps NaN. Beyond the largest number: e5m2 has infinity,
// e4m3fn stays at the largest one, infinity too, and the fnuz types, whose single NaN takes the
// place of -0, give NaN. Source: P. Micikevicius et al., FP8 Formats for Deep Learning,
// arXiv:2209.05433; B. Noune et al., arXiv:2206.02915; OCP Microscaling Formats, v1.0 (e8m0).
#include <bit>
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

enum class Beyond : uint8_t { Infinity, Largest, NoNumber };

struct E4M3FN {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint32_t kLargest = 0x7e;
  static constexpr Beyond kBeyond = Beyond::Largest;
};
struct E5M2 {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint32_t kLargest = 0x7b;
  static constexpr Beyond kBeyond = Beyond::Infinity;
};
struct E4M3FNUZ {
  static constexpr int kMantissa = 3, kBias = 8;
  static constexpr uint32_t kLargest = 0x7f;
  static constexpr Beyond kBeyond = Beyond::NoNumber;
};
struct E5M2FNUZ {
  static constexpr int kMantissa = 2, kBias = 16;
  static constexpr uint32_t kLargest = 0x7f;
  static constexpr Beyond kBeyond = Beyond::NoNumber;
};

// The bits of a float whose exponent is `exponent` and whose mantissa is 0.
constexpr uint32_t power_of_two_bits(int exponent) {
  return static_cast<uint32_t>(exponent + 127) << 23;
}

template <typename Format>
constexpr uint8_t float8_bits_from_float(float value) {
  constexpr int kShift = 23 - Format::kMantissa;
  constexpr int kLeastNormal = 1 - Format::kBias;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint8_t>(Format::kBeyond == Beyond::NoNumber ? 0x80u : sign | 0x7fu);
  uint32_t code = 0;
  if (magnitude < power_of_two_bits(kLeastNormal)) {
    // Subnormal: the sum has the unit of the least subnormal number, so hardware rounds.
    constexpr uint32_t kAligner = power_of_two_bits(kLeastNormal + kShift);
    code =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAligner)) -
        kAligner;
  } else {
    const uint32_t odd = (magnitude >> kShift) & 1u;
    const uint32_t half = (1u << (kShift - 1)) - 1u + odd;
    code = (magnitude - power_of_two_bits(-Format::kBias) + half) >> kShift;
  }
  if constexpr (Format::kBeyond == Beyond::NoNumber) {
    if (code > Format::kLargest) return 0x80u;
    return static_cast<uint8_t>(code == 0 ? 0u : sign | code);
  }
  if (code > Format::kLargest) code = Format::kLargest + (Format::kBeyond == Beyond::Infinity);
  return static_cast<uint8_t>(sign | code);
}

template <typename Format>
constexpr float float_from_float8_bits(uint8_t byte) {
  constexpr int kShift = 23 - Format::kMantissa;
  const uint32_t sign = static_cast<uint32_t>(byte & 0x80u) << 24;
  const uint32_t code = byte & 0x7fu;
  const uint32_t mantissa = code & ((1u << Format::kMantissa) - 1u);
  if (Format::kBeyond == Beyond::NoNumber ? byte == 0x80u : code > Format::kLargest) {
    const bool infinite = Format::kBeyond == Beyond::Infinity && mantissa == 0;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  if (code >> Format::kMantissa)
    return std::bit_cast<float>(sign | ((code << kShift) + power_of_two_bits(-Format::kBias)));
  const float unit = std::bit_cast<float>(power_of_two_bits(1 - Format::kBias - Format::kMantissa));
  const float magnitude = static_cast<float>(mantissa) * unit;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

template <typename Format>
struct Float8 {
  uint8_t bits = 0;
  constexpr Float8() = default;
  constexpr Float8(float value) : bits(float8_bits_from_float<Format>(value)) {}     // NOLINT
  constexpr operator float() const { return float_from_float8_bits<Format>(bits); }  // NOLINT
};
using Float8E4M3FN = Float8<E4M3FN>;
using Float8E5M2 = Float8<E5M2>;
using Float8E4M3FNUZ = Float8<E4M3FNUZ>;
using Float8E5M2FNUZ = Float8<E5M2FNUZ>;

// A power of two from 2^-127 (which 0 becomes) to 2^127, or NaN (infinity as well). The sign is
// dropped; a number halfway between two powers, 1.5 times the lower one, becomes the higher one.
struct Float8E8M0FNU {
  uint8_t bits = 0;
  constexpr Float8E8M0FNU() = default;
  constexpr Float8E8M0FNU(float value) {  // NOLINT
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
    const uint32_t exponent = magnitude >> 23, mantissa = magnitude & 0x7fffffu;
    // Below 2^-126 the mantissa's highest bit is 2^-127 itself.
    const bool up = exponent == 0xffu ? false
                    : exponent == 0u  ? mantissa > 0x400000u
                                      : mantissa >= 0x400000u;
    bits = static_cast<uint8_t>(exponent + up);
  }
  constexpr operator float() const {  // NOLINT
    if (bits == 0xffu) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23);
  }
};

// Two numbers of four bits in a byte; nothing converts them yet.
struct Float4E2M1FNx2 {
  uint8_t bits = 0;
};

template <typename T>
inline constexpr bool is_float8 = false;
template <typename Format>
inline constexpr bool is_float8<Float8<Format>> = true;
template <>
inline constexpr bool is_float8<Float8E8M0FNU> = true;

}  // namespace flambeau::c10
