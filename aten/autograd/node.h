#pragma once
// A function of the backward graph. Nodes come from free lists, are numbered in the order of their
// creation, and are destroyed without recursion however long the chain behind them is.
#include <atomic>
#include <memory>
#include <new>

#include "aten/autograd/hooks.h"

namespace flambeau::autograd {

class Node;
class SavedFields;
struct NodeExtras;
class GraphTask;

// Where a gradient flows: slot `input_nr` of `function` (that is, the gradient of its output
// `input_nr`). No function: the gradient is not wanted.
struct Edge {
  intrusive_ptr<Node> function;
  uint32_t input_nr = 0;
  bool is_valid() const { return static_cast<bool>(function); }
};

// What a node knows of one of its outputs, to check and shape the gradient that arrives for it.
struct OutputMetadata {
  DimVector sizes;
  ScalarType dtype =
      ScalarType::Undefined;  // Undefined: the output was undefined or has no gradient
  bool any_dtype = false;     // gradients arrive as they are
  Device device;
};

// The engine's notes on a node during one backward pass. The pass that claims `owner` may use the
// other fields; a second pass over the same node (another thread, or a reentrant call) keeps its
// notes in a table of its own.
struct NodeScratch {
  std::atomic<GraphTask*> owner{nullptr};
  uint32_t state = 0;
};

class Node : public RefCounted {
 public:
  Node();
  ~Node() override;
  static void* operator new(size_t bytes);
  // Destroys the object itself, so that chains are taken apart in a loop.
  static void operator delete(Node* node, std::destroying_delete_t, size_t bytes);
  // For a constructor that throws.
  static void operator delete(void* p, size_t bytes);

  virtual const char* name() const = 0;
  // grads[i]: gradient of output i, undefined where none arrived. Returns one gradient per edge.
  virtual Gradients apply(Gradients&& grads) = 0;
  // Frees the saved tensors; called after apply unless the graph is retained.
  virtual void release_saved() {}
  // Shows what the node keeps for its formulas, under the names of derivatives.yaml.
  virtual void show_saved(SavedFields& /*fields*/) {}
  // Whether apply may run code of the user, which must meet the usual dispatch keys.
  bool runs_user_code() const { return runs_user_code_; }
  // Whether this is the sink of a leaf.
  bool accumulates() const { return accumulates_; }

  uint64_t sequence_nr() const { return sequence_nr_; }
  size_t num_edges() const { return num_edges_; }
  const Edge& edge(size_t i) const { return edges()[i]; }
  void set_edge(size_t i, Edge edge) { edges()[i] = std::move(edge); }
  void add_edge(Edge edge);
  // The edge of an argument: an empty one if no gradient is wanted.
  void add_next_edge(const Tensor& argument);
  void add_next_edge(TensorList arguments);
  // Whether edge `i` wants a gradient: of the pass that is running this node, else of any pass.
  [[gnu::always_inline]] bool should_compute(size_t i) const {
    return i < num_edges_ && edges()[i].function && (!is_filtered() || pass_wants(i));
  }

  size_t num_outputs() const { return num_outputs_; }
  const OutputMetadata& output(size_t i) const {
    return i == 0 ? first_output_ : more_outputs_[i - 1];
  }
  uint32_t add_output(const Tensor& t);
  uint32_t add_undefined_output();
  void set_output(size_t i, const Tensor& t);
  // Of the first output: Undefined for any dtype.
  void set_gradient_dtype(ScalarType dtype) {
    first_output_.any_dtype = dtype == ScalarType::Undefined;
    if (!first_output_.any_dtype) first_output_.dtype = dtype;
  }

  // Hooks, anomaly notes and the Python object: absent for nearly all nodes.
  NodeExtras* extras() const { return extras_.get(); }
  NodeExtras& make_extras();

  NodeScratch& scratch() { return scratch_; }

  // Held while a built-in node runs, so that two passes may share it.
  void lock();
  void unlock() { busy_.store(false, std::memory_order_release); }

 protected:
  // While only weak references are left. The edges go too, one node after the other: a node may lie
  // behind itself through a weak reference (SavedTensor's view_grad_fn_).
  void release_resources() override;
  void set_sequence_nr(uint64_t nr) { sequence_nr_ = nr; }
  void set_runs_user_code() { runs_user_code_ = true; }
  void set_accumulates() { accumulates_ = true; }

 private:
  static constexpr uint32_t kInlineEdges = 2;
  Edge* edges() { return heap_edges_ ? heap_edges_.get() : inline_edges_; }
  const Edge* edges() const { return heap_edges_ ? heap_edges_.get() : inline_edges_; }
  bool is_filtered() const;
  bool pass_wants(size_t i) const;

  uint64_t sequence_nr_;
  NodeScratch scratch_;
  uint32_t num_edges_ = 0;
  uint32_t edge_capacity_ = kInlineEdges;
  uint32_t num_outputs_ = 0;
  std::atomic<bool> busy_{false};
  bool runs_user_code_ = false;
  bool accumulates_ = false;
  Edge inline_edges_[kInlineEdges];
  std::unique_ptr<Edge[]> heap_edges_;
  std::unique_ptr<NodeExtras> extras_;
  OutputMetadata first_output_;
  std::unique_ptr<OutputMetadata[]> more_outputs_;
};

struct NodeExtras {
  HookList<TensorHook> tensor_hooks;
  HookList<NodePreHook> pre_hooks;
  HookList<NodePostHook> post_hooks;
  struct Retained {
    uint32_t output_nr;
    weak_intrusive_ptr<TensorImpl> tensor;
  };
  std::vector<Retained> retained;  // non-leaf tensors whose .grad is wanted
  void* python_object = nullptr;   // borrowed; the binding clears it when the object dies
  void* metadata = nullptr;        // owned: the user's notes, a Python object
  std::string creation_trace;      // anomaly mode: where the forward call was made
  intrusive_ptr<Node> creator;     // anomaly mode: the node whose backward made this one
  ~NodeExtras();
};

// Set while anomaly mode is on; called for each new node.
extern std::atomic<void (*)(Node& node)> note_creation;

template <typename T, typename... Args>
intrusive_ptr<T> make_node(Args&&... args) {
  intrusive_ptr<T> node = make_intrusive<T>(std::forward<Args>(args)...);
  if (const auto note = note_creation.load(std::memory_order_relaxed)) [[unlikely]]
    note(*node);
  return node;
}

// The node that this thread is running and whether its pass computes only some gradients.
struct RunningNode {
  Node* node = nullptr;
  GraphTask* filter = nullptr;
};
extern thread_local constinit RunningNode running_node __attribute__((tls_model("initial-exec")));

inline bool Node::is_filtered() const { return running_node.node == this && running_node.filter; }

}  // namespace flambeau::autograd
