#include "aten/cpu/fused_cells.h"

#include <unordered_map>

namespace flambeau {
namespace {

std::span<const LoopCell> registered_cells;
std::span<const FoldCell> registered_folds;
std::span<const IndexedCell> registered_indexed;

using Names = std::unordered_map<const PointwiseLoop*, const char*>;

Names names_by_loops() {
  Names names;
  for (const LoopCell& cell : registered_cells) names.emplace(cell.loops[cpu_isa()], cell.name);
  return names;
}

}  // namespace

void register_loop_cells(std::span<const LoopCell> cells) { registered_cells = cells; }

bool is_heavy_cell(std::string_view name) {
  for (const LoopCell& cell : registered_cells) {
    if (name == cell.name) return cell.is_heavy;
  }
  return false;
}

void register_fold_cells(std::span<const FoldCell> cells) { registered_folds = cells; }

const FoldCell* fold_cell_of(std::string_view entry) {
  for (const FoldCell& cell : registered_folds) {
    if (entry == cell.entry) return &cell;
  }
  return nullptr;
}

void register_indexed_cells(std::span<const IndexedCell> cells) { registered_indexed = cells; }

const IndexedCell* indexed_cell_of(std::string_view entry) {
  for (const IndexedCell& cell : registered_indexed) {
    if (entry == cell.entry) return &cell;
  }
  return nullptr;
}

const char* cell_of(const PointwiseOp& op) {
  static const Names names = names_by_loops();
  const auto found = names.find(op.loops[cpu_isa()]);
  return found == names.end() ? nullptr : found->second;
}

}  // namespace flambeau
