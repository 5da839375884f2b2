#pragma once
// What a generated file of dispatch tables offers to the registry, which therefore includes no
// operator and is compiled again only for a new file (torchgen_out/aten/registry.cpp).
#include "aten/dispatch/cast_policy.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

struct FamilyTable {
  std::span<OperatorEntry* const> entries;
  std::span<const CastPolicies> policies;
};

}  // namespace flambeau
