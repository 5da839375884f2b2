#pragma once
// What the generated file of a family's dispatch tables offers to the registry, which therefore
// includes no operator and is compiled again only for a new family
// (torchgen_out/aten/registry.cpp).
#include "aten/dispatch/cast_policy.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

struct FamilyTable {
  std::span<OperatorEntry* const> entries;
  std::span<const CastPolicies> policies;
};

}  // namespace flambeau
