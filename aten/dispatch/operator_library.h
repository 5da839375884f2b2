#pragma once
// Libraries of operators that programs load while they run: tables of the same kind as flambeau's
// own, which the generator writes for an author's YAML file (docs/extending.md). They are never
// removed.
#include <span>
#include <string_view>
#include <vector>

#include "aten/dispatch/cast_policy.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau {

struct OperatorLibrary {
  std::string_view name;                     // "mylib"
  std::span<OperatorEntry* const> entries;   // called "mylib::swish.out"
  std::span<const CastPolicies> policies{};  // what autocast does to their arguments
};

// RuntimeError, and nothing is registered, if an operator of one of the names exists.
void register_library(const OperatorLibrary& library);
// nullptr if no library has the operator.
OperatorEntry* find_library_operator(std::string_view name);
// In the order of their names.
std::vector<const OperatorEntry*> library_operators();
// Calls `install` for the policies of each library: of those that are registered, now.
void on_library_policies(void (*install)(std::span<const CastPolicies>));
// The row of an operator of a library; nullptr if autocast leaves its arguments alone.
const CastPolicies* library_policies(const OperatorEntry& op);

}  // namespace flambeau
