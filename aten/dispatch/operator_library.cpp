#include "aten/dispatch/operator_library.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "aten/dispatch/defined_operator.h"

namespace flambeau {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::map<std::string_view, OperatorEntry*> operators;
  std::vector<std::span<const CastPolicies>> policies;
  void (*install)(std::span<const CastPolicies>) = nullptr;
};
Table& table() {
  static auto* const made = new Table;
  return *made;
}

void check_name(const OperatorLibrary& library, std::string_view name, const Table& all) {
  const bool is_inside = name.size() > library.name.size() + 2 && name.starts_with(library.name) &&
                         name.substr(library.name.size(), 2) == "::";
  check(is_inside, library.name, ": expected operators of this namespace, got ", name);
  check(!all.operators.contains(name) && !find_defined_operator(name), name,
        ": expected a new operator, got one that is registered already");
}

}  // namespace

void register_library(const OperatorLibrary& library) {
  Table& all = table();
  void (*install)(std::span<const CastPolicies>);
  {
    const std::unique_lock lock(all.mutex);
    for (const OperatorEntry* op : library.entries) check_name(library, op->name, all);
    for (OperatorEntry* op : library.entries) all.operators.emplace(op->name, op);
    all.policies.push_back(library.policies);
    install = all.install;
  }
  if (install) install(library.policies);
}

OperatorEntry* find_library_operator(std::string_view name) {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  const auto at = all.operators.find(name);
  return at == all.operators.end() ? nullptr : at->second;
}

std::vector<const OperatorEntry*> library_operators() {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  std::vector<const OperatorEntry*> found;
  for (const auto& [name, op] : all.operators) found.push_back(op);
  return found;
}

void on_library_policies(void (*install)(std::span<const CastPolicies>)) {
  Table& all = table();
  std::vector<std::span<const CastPolicies>> known;
  {
    const std::unique_lock lock(all.mutex);
    all.install = install;
    known = all.policies;
  }
  for (const std::span<const CastPolicies> rows : known) install(rows);
}

const CastPolicies* library_policies(const OperatorEntry& op) {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  for (const std::span<const CastPolicies> rows : all.policies) {
    for (const CastPolicies& row : rows) {
      if (row.entry == &op) return &row;
    }
  }
  return nullptr;
}

}  // namespace flambeau
