#include "aten/cpu/fused_cells.h"

#include <unordered_map>

namespace flambeau {
namespace {

std::span<const LoopCell> registered_cells;
std::span<const FoldCell> registered_folds;
std::span<const IndexedCell> registered_indexed;

using Cells = std::unordered_map<std::string_view, const LoopCell*>;

Cells cells_by_name() {
  Cells cells;
  for (const LoopCell& cell : registered_cells) cells.emplace(cell.loops.name(), &cell);
  return cells;
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
  static const Cells cells = cells_by_name();
  if (!op.loops.name()) return nullptr;
  const auto found = cells.find(op.loops.name());
  // An extension's loops may have the name of other loops.
  const bool is_cell = found != cells.end() && found->second->loops.get() == op.loops.get();
  return is_cell ? found->second->name : nullptr;
}

}  // namespace flambeau
