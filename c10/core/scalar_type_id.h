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
  UInt64,
  UInt16,  // from here on: types of memory, whose loops run in a wider type
  UInt32,
  Complex32,
  Float8E5M2,
  Float8E4M3FN,
  Float8E5M2FNUZ,
  Float8E4M3FNUZ,
  Float8E8M0FNU,
  Float4E2M1FNx2,
  Undefined,
};
inline constexpr int kNumScalarTypes = 22;
// The types that loops compute in are the first ones; their tables have an entry for each.
inline constexpr int kNumComputeTypes = 13;

constexpr int index_of(ScalarType t) { return static_cast<int>(t); }

}  // namespace flambeau::c10
