#pragma once
// Reverse mode: runs the graph behind some outputs in the calling thread.
#include "aten/autograd/node.h"

namespace flambeau::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  // For `grad` only.
  bool allow_unused = false;
  bool materialize_grads = false;
};

// Adds d(sum of outputs . grads)/d(leaf) to .grad of the leaves, or of `inputs` alone when given.
// An undefined entry of `grads` stands for one, for an output with one element.
void backward(TensorList outputs, TensorList grads, TensorList inputs, const BackwardOptions& options);
// Returns the gradients of `inputs` without touching any .grad.
std::vector<Tensor> grad(TensorList outputs, TensorList grads, TensorList inputs,
                         const BackwardOptions& options);
// The same for edges, as for outputs whose tensor has died. `captures` empty: accumulate in the leaves.
Gradients run_backward(ArrayRef<Edge> roots, Gradients&& root_grads, ArrayRef<Edge> captures,
                       bool accumulate, const BackwardOptions& options);

// The node that this thread's backward is running; null outside of one.
Node* current_node();

}  // namespace flambeau::autograd
