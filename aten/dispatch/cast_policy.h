#pragma once
// What autocast does to the floating point arguments of an operator: generated from the `autocast`
// field of native_functions.yaml (torchgen_out/aten/<family>_ops.cpp).
#include <cstdint>
#include <span>

namespace flambeau {

struct OperatorEntry;

enum class CastPolicy : uint8_t {
  None,            // runs in the dtypes of its arguments; parts of a composite cast by themselves
  LowerPrecision,  // casts to the dtype of the region
  Float32,         // casts to float32
  Float32Result,   // asks for a float32 result by `dtype` where that is None, else as Float32
  Promote,         // casts to the widest dtype among the arguments
  Keep,            // runs in the dtypes of its arguments, and so do the parts of a composite
  Refuse,          // is an error: too many values are not representable
};

struct CastPolicies {
  OperatorEntry* entry;
  CastPolicy cpu;
  CastPolicy cuda;
};
std::span<const CastPolicies> cast_policies();

}  // namespace flambeau
