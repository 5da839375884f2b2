#pragma once
// Function transforms as a stack of layers, one stack per thread. The innermost layer sees a call
// first: a Vmap layer answers it by a batching rule, a Grad or Jvp layer lets autograd record it
// for tensors of its own level; both then leave the layer and call the operator again, so that the
// next layer (or, below all, the backend) sees it. Layers therefore nest in any order.
//
// A tensor of level n is a wrapper: another tensor, of a lower level, stands behind it.
#include <optional>

#include "aten/core/tensor.h"
#include "c10/core/thread_state.h"

namespace flambeau::transforms {

enum class LayerKind : uint8_t { Vmap, Grad, Jvp };
// What random operators do under vmap: fail, draw one sample for all entries, or one per entry.
enum class Randomness : uint8_t { Error, Same, Different };

struct Layer {
  LayerKind kind;
  int64_t level;       // 1 is the outermost
  int64_t batch_size;  // of a Vmap layer
  Randomness randomness;
  ThreadState outside;  // the thread's switches when the layer was pushed
};

// What stands behind a wrapper. Immutable; in-place operators change `value` itself.
struct Wrapper final : WrapperBase {
  Tensor value;
  int64_t level = 0;
  int64_t batch_dim =
      -1;  // the dimension of `value` that vmap hides; -1: a wrapper of a gradient layer
  // Shared by all wrappers of one layer; false once it was popped.
  intrusive_ptr<RefCounted> life;
};

// The wrapper behind `t` if it belongs to the layer `level`, else nullptr.
const Wrapper* wrapper_at(const Tensor& t, int64_t level);

// A tensor without dimension `batch_dim` of `value`; negative dimensions count from the end.
Tensor make_batched(const Tensor& value, int64_t batch_dim, int64_t level);
// A tensor that the autograd of one gradient layer may track apart from `value`'s own history.
Tensor make_tracked(const Tensor& value, int64_t level);

// --- the stack
// ----------------------------------------------------------------------------------------------

// Enters a layer and returns its level. ValueError on a negative batch size.
int64_t push_layer(LayerKind kind, int64_t batch_size = -1,
                   Randomness randomness = Randomness::Error);
// Leaves the innermost layer; its wrappers become what stands behind them.
void pop_layer();
const Layer* innermost_layer();  // nullptr outside of all transforms
int64_t depth();

// The scope in which a layer's rule calls operators below the layer: the thread's switches are
// those from outside of the innermost layer, which comes back at the end of the scope.
class BelowLayer {
 public:
  BelowLayer();
  ~BelowLayer();
  BelowLayer(const BelowLayer&) = delete;
  BelowLayer& operator=(const BelowLayer&) = delete;

 private:
  Layer layer_;
  ThreadState inside_;
};

}  // namespace flambeau::transforms
