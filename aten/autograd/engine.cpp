#include "aten/autograd/engine.h"

#include <thread>

#include "aten/autograd/graph_task.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/stand_in.h"
#include "aten/autograd/transform_hooks.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "aten/dispatch/recording.h"

namespace flambeau::autograd {

void (*move_layers)(void*& box) = nullptr;

namespace {

thread_local constinit int depth = 0;
// Each reentrant pass takes a few frames of the stack; deeper ones get a stack of their own.
constexpr int kMaxDepth = 60;

// The modes of operators while a pass runs. They are recorded only for create_graph; otherwise they
// also skip the Autograd wrappers, unless there are tangents.
class PassScope {
 public:
  explicit PassScope(bool create_graph)
      : grad_mode_(create_graph), excluded_(thread_state.excluded) {
    ++depth;
    if (!create_graph && forward_levels.load(std::memory_order_relaxed) == 0) {
      thread_state.excluded |= DispatchKeySet(DispatchKey::Autograd).bits();
    } else {
      thread_state.excluded &= ~DispatchKeySet(DispatchKey::Autograd).bits();
    }
  }
  ~PassScope() {
    thread_state.excluded = excluded_;
    --depth;
  }
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  GradModeGuard grad_mode_;
  uint64_t excluded_;
};

void run_on_new_stack(GraphTask& task, ArrayRef<Edge> roots, Gradients&& grads, bool create_graph) {
  std::exception_ptr error;
  const ThreadState state = thread_state;
  void* layers = nullptr;
  recording::Log* log = nullptr;
  const auto hand_over = [&] {
    if (move_layers) move_layers(layers);
    log = recording::exchange(log);
  };
  hand_over();
  std::thread worker([&] {
    thread_state = state;
    hand_over();
    try {
      const PassScope scope(create_graph);
      task.run(roots, std::move(grads));
    } catch (...) {
      error = std::current_exception();
    }
    hand_over();
  });
  worker.join();
  hand_over();
  if (error) std::rethrow_exception(error);
}

Tensor implicit_grad(const Tensor& output) {
  check(output.numel() == 1, "grad can be implicitly created only for scalar outputs, got shape ",
        output.sizes(), "; pass gradient= for others");
  check(is_floating_type(output.dtype()),
        "grad can be implicitly created for real outputs only, got dtype ", output.dtype());
  if (stands_for_another(output)) return operators::ones_like(output);
  Tensor one = empty_like_tensor(output);
  if (!one.is_meta()) fill_with(one, 1);
  return one;
}

void check_given_grad(const Tensor& output, const Tensor& grad, size_t i) {
  check(grad.sizes() == output.sizes(), "Mismatch in shape: expected grad_output[", i,
        "] of the output's shape ", output.sizes(), ", got ", grad.sizes());
  check(is_complex_type(grad.dtype()) == is_complex_type(output.dtype()),
        "expected a gradient of the output's dtype (Mismatch in dtype), got ", grad.dtype(),
        " as grad_output[", i, "] of an output of ", output.dtype());
}

// Edges and gradients of the outputs.
Gradients make_roots(TensorList outputs, TensorList grads, std::vector<Edge>& roots) {
  check(grads.empty() || grads.size() == outputs.size(), "expected a gradient for each of ",
        outputs.size(), " tensors, got ", grads.size());
  Gradients root_grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(requires_grad(outputs[i]), "expected tensors that require grad, got element ", i,
          ", which does not require grad and does not have a grad_fn");
    const bool given = i < grads.size() && grads[i].defined();
    if (given) check_given_grad(outputs[i], grads[i], i);
    root_grads.push_back(given ? grads[i] : implicit_grad(outputs[i]));
    roots.push_back(gradient_edge(outputs[i]));
  }
  return root_grads;
}

std::vector<Edge> edges_of_inputs(TensorList inputs, bool accumulate) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(requires_grad(inputs[i]),
          "expected inputs with a graph, got one that does not require grad");
    if (accumulate) retain_grad(inputs[i]);
    edges.push_back(gradient_edge(inputs[i]));
  }
  return edges;
}

}  // namespace

Node* current_node() { return running_node.node; }

Gradients run_backward(ArrayRef<Edge> roots, Gradients&& root_grads, ArrayRef<Edge> captures,
                       bool accumulate, const BackwardOptions& options) {
  GraphTask task(options);
  if (!captures.empty()) task.set_targets(captures, accumulate);
  if (depth >= kMaxDepth) {
    run_on_new_stack(task, roots, std::move(root_grads), options.create_graph);
  } else {
    const PassScope scope(options.create_graph);
    task.run(roots, std::move(root_grads));
  }
  return task.take_captured();
}

void backward(TensorList outputs, TensorList grads, TensorList inputs,
              const BackwardOptions& options) {
  std::vector<Edge> roots;
  Gradients root_grads = make_roots(outputs, grads, roots);
  const std::vector<Edge> targets = edges_of_inputs(inputs, true);
  run_backward(roots, std::move(root_grads), targets, true, options);
}

std::vector<Tensor> grad(TensorList outputs, TensorList grads, TensorList inputs,
                         const BackwardOptions& options) {
  std::vector<Edge> roots;
  Gradients root_grads = make_roots(outputs, grads, roots);
  const std::vector<Edge> targets = edges_of_inputs(inputs, false);
  if (targets.empty()) return {};
  Gradients captured = run_backward(roots, std::move(root_grads), targets, false, options);
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!captured[i].defined() && options.materialize_grads) {
      captured[i] = empty_like_tensor(inputs[i]);
      if (!captured[i].is_meta()) fill_with(captured[i], 0);
    }
    check(captured[i].defined() || options.allow_unused, "input ", i,
          " appears to not have been used in the graph of the outputs; with allow_unused=True its "
          "gradient is None");
    result.push_back(std::move(captured[i]));
  }
  return result;
}

}  // namespace flambeau::autograd
