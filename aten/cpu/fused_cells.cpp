#include "aten/cpu/fused_cells.h"

#include <unordered_map>

namespace flambeau {
namespace {

std::span<const LoopCell> registered_cells;
std::span<const FoldCell> registered_folds;
std::span<const IndexedCell> registered_indexed;
std::span<const CastCell> registered_casts;

template <typename Cell>
const Cell* cell_of_entry(std::span<const Cell> cells, std::string_view entry) {
  for (const Cell& cell : cells) {
    if (entry == cell.entry) return &cell;
  }
  return nullptr;
}

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
  return cell_of_entry(registered_folds, entry);
}

void register_indexed_cells(std::span<const IndexedCell> cells) { registered_indexed = cells; }

const IndexedCell* indexed_cell_of(std::string_view entry) {
  return cell_of_entry(registered_indexed, entry);
}

void register_cast_cells(std::span<const CastCell> cells) { registered_casts = cells; }

bool is_cast_operator(std::string_view entry) {
  return cell_of_entry(registered_casts, entry) != nullptr;
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
