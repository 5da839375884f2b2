#pragma once
// Functionalisation: operators on functional tensors write to no memory. A functional tensor is a
// wrapper that is a root, which owns its elements as a value that is replaced by every write, or a
// view of another one. A write through a view replaces the value of the root; the other views are
// computed anew when they are next read (docs/adr/0009-functionalisation.md).
#include "aten/core/view.h"
#include "aten/transforms/layers.h"

namespace flambeau::transforms {

// The call that makes a view of another functional tensor.
struct ViewCall {
  const OperatorEntry* op = nullptr;
  Stack arguments;  // without the viewed tensor
  size_t viewed = 0;
  int64_t piece = -1;  // of the list that the call returns; -1: it returns the view
};

struct Functional final : Wrapper {
  intrusive_ptr<Functional> parent;  // what a view sees; null: a root
  ViewCall call;
  ViewGeometry geometry;  // in the root's memory, as if it were written; the dtype is always given
  bool copies_views = false;  // below it, views are copies
  int64_t generation = 0;  // of a root: how often it was written; of a view: when `value` was made
};

// The level of functional tensors outside of layers: those of the dispatch key Functionalize.
inline constexpr int64_t kNoLayer = 0;

// The functional tensor behind `t` at a level, nullptr if it is none.
Functional* functional_at(const Tensor& t, int64_t level);
// A root with the elements of `value`.
Tensor make_functional(const Tensor& value, int64_t level);
// The elements after all writes.
const Tensor& updated(Functional& functional);
// Whether they are aliases.
bool have_one_root(const Functional& a, const Functional& b);
// Whether the tensor or what it views was written.
bool was_written(const Functional& functional);

// Runs `op` without writes, on the functional tensors of a level.
void run_functional(const OperatorEntry& op, DispatchKeySet keys, Stack& stack, int64_t level);

// Puts the key Functionalize among the keys of this thread, so that new tensors are functional too.
// `copies_views`: views are copies below it. Returns whether it was on.
bool set_functionalization(bool on, bool copies_views);

}  // namespace flambeau::transforms
