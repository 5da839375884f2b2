#pragma once
// The names of the formulas of pointwise loops in torchgen_out/cells/loop_cells.h, which generated
// kernels call. Operators of extensions have none.
#include <span>
#include <string_view>

#include "aten/core/pointwise_op.h"

namespace flambeau {

struct LoopCell {
  const char* name;
  bool is_heavy;                   // bound by arithmetic, not by memory
  LoopTable<PointwiseLoop> loops;  // those of its descriptor
};

// A reduction without tensors of its own; lists of names are divided by spaces.
struct FoldCell {
  const char* entry;  // "sum.dim_IntList"
  const char* name;   // of its functions
  bool widens;        // bool and integers become int64
  bool is_sum;        // of the operand itself: sum_i operand[i]
  bool is_truth;      // its partial results are bool
  const char* operands;
  const char* params;
  const char* dim;      // the argument that names the dimensions
  const char* keepdim;  // the argument that keeps them; may be empty
};

// An operator that reads one element along a dimension, result = tensor[index along dim], or writes
// one, result[index along dim] += tensor. The names are those of its arguments.
struct IndexedCell {
  const char* entry;
  bool adds;
  const char* tensor;
  const char* index;
  const char* dim;
};

// An operator that copies its first argument into another dtype (the tag `cast`).
struct CastCell {
  const char* entry;
};

// `cells` must live as long as the process; called once, while the library is loaded.
void register_loop_cells(std::span<const LoopCell> cells);
bool is_heavy_cell(std::string_view name);
void register_fold_cells(std::span<const FoldCell> cells);
// The reduction of an operator "sum.dim_IntList"; nullptr if there is none.
const FoldCell* fold_cell_of(std::string_view entry);
void register_indexed_cells(std::span<const IndexedCell> cells);
// nullptr for operators whose entries have no such formula.
const IndexedCell* indexed_cell_of(std::string_view entry);
void register_cast_cells(std::span<const CastCell> cells);
bool is_cast_operator(std::string_view entry);
// The name of the formula of an operator's loops; nullptr if there is none.
const char* cell_of(const PointwiseOp& op);

}  // namespace flambeau
