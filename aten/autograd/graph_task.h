#pragma once
// One backward pass: which nodes it reaches, how many gradients each still waits for, and what has
// arrived. Nodes carry the index of their state themselves; see NodeScratch.
#include <deque>
#include <unordered_map>
#include <vector>

#include "aten/autograd/engine.h"

namespace flambeau::autograd {

class GraphTask {
 public:
  explicit GraphTask(const BackwardOptions& options);
  ~GraphTask();
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;

  // Gradients of `targets` alone; with `accumulate` they are added to the leaves among them.
  void set_targets(ArrayRef<Edge> targets, bool accumulate);
  // Runs everything behind `roots`.
  void run(ArrayRef<Edge> roots, Gradients&& grads);
  Gradients take_captured() { return std::move(captured_); }
  // Whether the pass, restricted to its targets, needs a gradient of `node`.
  bool wants(Node& node);
  uint64_t id() const { return id_; }
  bool is_filtered() const { return filtered_; }
  bool keeps_graph() const { return options_.retain_graph; }
  // The pass that this one is in, directly or not.
  GraphTask& outermost();
  void add_hook(intrusive_ptr<PassHook> hook) { hooks_.push_back(std::move(hook)); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct State {
    Node* node;
    uint32_t waiting_for = 0;  // gradients of edges that have not been followed yet
    uint32_t buffer = kNone;
    uint32_t first_capture = kNone;
    bool runs = true;  // false: its gradient is only captured
    bool wanted = true;
  };
  struct Capture {
    uint32_t output_nr;
    uint32_t next;  // of the same node
  };
  struct Ready {
    uint64_t sequence_nr;
    uint32_t state;
    bool operator<(const Ready& o) const { return sequence_nr < o.sequence_nr; }
  };

  uint32_t reach(Node& node);
  uint32_t find(Node& node) const;
  void discover(ArrayRef<Edge> roots);
  void restrict_to_targets();
  void deliver(uint32_t state, uint32_t output_nr, Tensor&& grad);
  void push_ready(uint32_t state);
  void evaluate(uint32_t state);
  Gradients call(Node& node, Gradients&& grads);
  void send(Node& node, Gradients&& grads);
  void shape_gradient(const Node& node, size_t i, const OutputMetadata& expected,
                      Tensor& grad) const;
  void run_tensor_hooks(Node& node, Gradients& grads);
  void capture(const State& state, const Gradients& grads);
  // Whether discover() has not looked behind a node.
  bool ends_at(const State& state) const {
    return options_.stops_at_captures && state.first_capture != kNone;
  }
  bool is_incomplete(const State& state) const {
    return state.first_capture != kNone && state.first_capture >= options_.first_incomplete;
  }
  void run_hooks();

  const uint64_t id_;
  BackwardOptions options_;
  std::vector<State> states_;
  std::unordered_map<Node*, uint32_t> shared_;  // nodes whose scratch another pass has
  std::deque<Gradients> buffers_;
  std::vector<uint32_t> free_buffers_;
  std::vector<Ready> ready_;  // a heap
  std::vector<Edge> targets_;
  std::vector<Capture> captures_;
  Gradients captured_;
  std::vector<intrusive_ptr<PassHook>> hooks_;
  GraphTask* outer_ = nullptr;  // the pass whose node started this one
  bool filtered_ = false;
  bool accumulate_ = true;
};

}  // namespace flambeau::autograd
