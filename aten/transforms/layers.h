#pragma once
// Function transforms as a stack of layers, one stack per thread. The innermost layer sees a call
// first: a Vmap layer answers it by a batching rule, a Grad or Jvp layer lets autograd record it
// for tensors of its own level; both then leave the layer and call the operator again, so that the
// next layer (or, below all, the backend) sees it. Layers therefore nest in any order.
//
// A tensor of level n is a wrapper, which owns its value: another tensor, of a lower level.
#include <optional>

#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/stack.h"

namespace flambeau::transforms {

enum class LayerKind : uint8_t { Vmap, Grad, Jvp, Functionalize };
// What random operators do under vmap: fail, draw one sample for all entries, or one per entry.
enum class Randomness : uint8_t { Error, Same, Different };

struct Layer {
  LayerKind kind;
  int64_t level;       // 1 is the outermost
  int64_t batch_size;  // of a Vmap layer
  Randomness randomness;
  bool copies_views = false;  // of a Functionalize layer: views are copies below it
  ThreadState outside;        // the thread's switches when the layer was pushed
  // Shared with the layer's wrappers, which learn from it that the layer was popped.
  intrusive_ptr<RefCounted> life;
  Layer* outer = nullptr;  // the layer around this one
};

// The content of a wrapper. Immutable; in-place operators change `value` itself.
struct Wrapper : WrapperBase {
  Tensor value;
  int64_t level = 0;
  int64_t batch_dim =
      -1;  // the dimension of `value` that vmap hides; -1: a wrapper of a gradient layer
  // Shared by all wrappers of one layer; false once it was popped.
  intrusive_ptr<RefCounted> life;
  // Made for one call from a tensor that the user's function captured.
  bool is_captured = false;
  bool is_functional = false;  // it is a Functional (functional.h), whose value may be outdated
};

// The wrapper behind `t`, nullptr for an ordinary tensor.
inline const Wrapper* wrapper_of(const Tensor& t) {
  return t.defined() ? static_cast<const Wrapper*>(t.impl()->wrapper()) : nullptr;
}
// The same if it belongs to the layer `level`.
inline const Wrapper* wrapper_at(const Tensor& t, int64_t level) {
  const Wrapper* wrapper = wrapper_of(t);
  return wrapper && wrapper->level == level ? wrapper : nullptr;
}
// Whether a vmap hides a dimension of `t`, in whatever layer, so that its elements cannot be read.
bool is_batched(const Tensor& t);
// Whether the layer of this wrapper was popped: the tensor is then no more than its value.
bool is_dead(const Wrapper& wrapper);
// What is left of `t` without the wrappers of layers that were popped.
Tensor without_dead(const Tensor& t);
// The ordinary tensor below all wrappers.
const Tensor& bottom_of(const Tensor& t);
// The number of writes to the memory behind `t`.
uint32_t version_of(const Tensor& t);

// A tensor without dimension `batch_dim` of `value`; negative dimensions count from the end.
Tensor make_batched(const Tensor& value, int64_t batch_dim, int64_t level);
// A tensor that the autograd of one gradient layer may track apart from `value`'s own history.
Tensor make_tracked(const Tensor& value, int64_t level);
// The same as a view of the wrapper `base`, which `value` is a view of: they share a storage object
// and with it the version counter.
Tensor make_tracked_view(const Tensor& value, const Tensor& base);
// Makes `t`, an ordinary tensor that nobody else has seen yet, a tensor of the layer `level`.
// `batch_dim` < 0: of a gradient layer. `value` holds its elements.
void become_wrapper(const Tensor& t, const Tensor& value, int64_t batch_dim, int64_t level);
// Makes `t` the tensor of a wrapper that has its level; 0: of no layer, with the key Functionalize.
void attach_functional(const Tensor& t, intrusive_ptr<Wrapper> wrapper);
// Of an active Functionalize layer.
bool layer_copies_views(int64_t level);
// Storage objects of no bytes, which stand for the memory of wrappers.
Storage storage_without_memory(const Tensor& value);
// A tensor fresh from data becomes one of every gradient layer, so that it may be changed in place.
Tensor lift_fresh(Tensor t);
// After its value was changed in place: the wrapper takes over geometry, memory and version.
void refresh(const Tensor& wrapper, uint32_t version_before);

// --- the stack ----------------------------------------------------------------------------------

// Enters a layer and returns its level. ValueError on a negative batch size.
int64_t push_layer(LayerKind kind, int64_t batch_size = -1,
                   Randomness randomness = Randomness::Error, bool copies_views = false);
// Leaves the innermost layer; operators replace its wrappers by their values.
void pop_layer();
const Layer* innermost_layer();  // nullptr outside of all transforms
int64_t depth();

// The scope in which a layer's rule calls operators below the layer: the thread's switches are
// those from outside of the innermost layer, which comes back at the end of the scope. Modes that
// were switched off inside stay off.
class BelowLayer {
 public:
  BelowLayer();
  ~BelowLayer();
  BelowLayer(const BelowLayer&) = delete;
  BelowLayer& operator=(const BelowLayer&) = delete;

 private:
  Layer* layer_;
  ThreadState inside_;
};

// Runs `op` on the stack from its outermost key: what a rule does below its layer.
void call_operator(const OperatorEntry& op, Stack& stack);

}  // namespace flambeau::transforms
