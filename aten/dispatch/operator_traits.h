#pragma once
// What function transforms must know of an operator overload, as constant tables: generated from
// the two YAML files (torchgen_out/aten/<family>_traits.cpp), reached through
// OperatorEntry::traits.
#include <cstdint>
#include <span>

namespace flambeau {

struct OperatorEntry;

enum class ArgumentKind : uint8_t { Tensor, TensorList, Other };  // optional ones included

struct ArgumentTraits {
  const char* name;
  ArgumentKind kind;
  bool is_mutable;  // written to: self of in-place forms, out arguments
};

struct ResultTraits {
  int8_t alias = -1;     // the argument whose memory it shares; -1: memory of its own
  bool is_self = false;  // it is that argument, not a view of it
};

// How a rule treats one argument or result.
enum class BatchRole : uint8_t {
  Plain,    // is passed as it is; a tensor must not be batched
  Operand,  // broadcasts: ranks are aligned on the right, behind the batch dimension
  Mask,     // as Operand, but does not take part in promotion
  Front,    // the batch dimension goes first; what is not batched is expanded
  Align,    // as Front, with ones behind it until all ranks before `at` core dimensions agree
  Fold,     // the batch dimension is merged into dimension `at`; made where there is none
  Follow,   // a result's batch was merged into the dimension that argument `at` names
  Dim,      // dimensions, counted as the first placed tensor is, moved by one; `at`: a DimKind
  Size,     // a list of sizes, indices or strides to which an entry for the batch is added in front
  Stride,   // a list of strides to which that of the batch is added in front
  Offset,   // a place in memory, counted from where an entry begins
  Times,    // a count that is multiplied by the batch size
};

// What a Dim argument is: one dimension, where None joins all of them; a list with members; a list
// where none means all; an order of all dimensions; dimensions of a result with new dimensions.
enum DimKind : int8_t { kOneDim, kDims, kDimsOrAll, kOrder, kNewDim, kNewDims };

struct BatchPlace {
  BatchRole role = BatchRole::Plain;
  int8_t at = 0;
};

enum class BatchMethod : uint8_t {
  Pointwise,  // Operand roles, with dtypes kept as they are without the batch
  Place,      // the operator itself on whole tensors
  Loop,       // the operator once per entry
  Parts,      // `parts` under the same layer: every operator in it has rules of its own
};

// One way to run the operator on whole tensors. Applies if every batched tensor has a role other
// than Plain; the first rule that applies is taken.
struct BatchRule {
  BatchMethod method;
  std::span<const BatchPlace> arguments;  // empty: all Plain
  std::span<const BatchPlace> results;    // empty: all Front
  void* parts;                            // of Parts: an unboxed kernel of the operator's signature
};

struct OperatorTraits {
  std::span<const ArgumentTraits> arguments;
  std::span<const ResultTraits> results;
  std::span<const BatchRule> rules;  // none: the operator runs once per entry
  bool is_composite;                 // its kernels only call other operators
  bool is_random;                    // draws random numbers itself
  bool is_factory;                   // only makes a tensor, of given sizes or like another one
  bool is_dynamic;                   // shapes or values of results are read from data
  bool passes_lazy;                  // takes conjugate and negative views as they are
  bool has_effect;                   // writes to a tensor, which its schema does not say
  // A composite without effects whose parts write to tensors of its own, or make views for copies:
  // one operator for those who ask for no writes and no views.
  bool is_whole;
  // Of an overload for numbers: the one that Python code is asked for, where a number is a tensor.
  const OperatorEntry* tensor_form;
  // The one with the same values that writes nothing: of an in-place or out= form the operator, of
  // a view its copy. nullptr: there is none.
  const OperatorEntry* functional;
  // Of a view that reads memory as other numbers: the view that reads it back.
  const OperatorEntry* inverse;
};

}  // namespace flambeau
