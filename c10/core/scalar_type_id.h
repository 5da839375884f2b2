#pragma once
// The enumeration alone, for generated loops: they must not pay for <string>.
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

enum class ScalarType : int8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
  Undefined,
};
inline constexpr int kNumScalarTypes = 12;

constexpr int index_of(ScalarType t) { return static_cast<int>(t); }

}  // namespace flambeau::c10
