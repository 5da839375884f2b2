#pragma once
// Reverse mode: runs the graph behind some outputs in the calling thread.
#include <cstdint>

#include "aten/autograd/node.h"
#include "c10/core/thread_state.h"

namespace flambeau::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  // For `grad` only.
  bool allow_unused = false;
  bool materialize_grads = false;
  // For captured edges only: their nodes do not run, also where paths through them lead to others.
  bool stops_at_captures = false;
  // The captures from this one on are incomplete gradients, which tensor hooks do not see yet.
  uint32_t first_incomplete = UINT32_MAX;
};

// Adds d(sum of outputs . grads)/d(leaf) to .grad of the leaves, or of `inputs` alone when given.
// An undefined entry of `grads` stands for one, for an output with one element.
void backward(TensorList outputs, TensorList grads, TensorList inputs,
              const BackwardOptions& options);
// Returns the gradients of `inputs` without touching any .grad.
std::vector<Tensor> grad(TensorList outputs, TensorList grads, TensorList inputs,
                         const BackwardOptions& options);
// The same for edges, as for outputs whose tensor has died. `captures` empty: accumulate in the
// leaves.
Gradients run_backward(ArrayRef<Edge> roots, Gradients&& root_grads, ArrayRef<Edge> captures,
                       bool accumulate, const BackwardOptions& options);

// Runs after a pass.
struct PassHook : RefCounted {
  virtual void call() = 0;
};
// Calls the hook once, when the outermost pass that this thread is in has ended without an error.
// Fails outside of a pass.
void add_pass_hook(intrusive_ptr<PassHook> hook);

// While hooks and custom functions run: restores the dispatch keys that the engine excludes.
class UserCodeScope {
 public:
  UserCodeScope() : previous_(thread_state.excluded) {
    thread_state.excluded &= ~DispatchKeySet(DispatchKey::Autograd).bits();
  }
  ~UserCodeScope() { thread_state.excluded = previous_; }
  UserCodeScope(const UserCodeScope&) = delete;
  UserCodeScope& operator=(const UserCodeScope&) = delete;

 private:
  uint64_t previous_;
};

// The node that this thread's backward is running; null outside of one.
Node* current_node();
// A number for the pass that this thread is in; 0 outside of one.
uint64_t current_pass();
// That of the outermost pass, which differs where a node of it has started another.
uint64_t outermost_pass();
// Whether that pass computes a gradient for `node`.
bool current_pass_reaches(Node& node);
// Whether it computes some gradients only: `grad`, or backward with inputs.
bool current_pass_is_filtered();
// Whether it leaves saved tensors for another pass; true outside of one.
bool current_pass_keeps_graph();

}  // namespace flambeau::autograd
