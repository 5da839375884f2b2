#include "aten/autograd/node.h"

#include <thread>

#include "aten/autograd/engine.h"
#include "aten/autograd/graph_task.h"
#include "aten/autograd/variable.h"
#include "aten/dispatch/recording.h"
#include "c10/core/small_blocks.h"

namespace flambeau::autograd {

std::atomic<void (*)(Node& node)> note_creation{nullptr};
thread_local constinit RunningNode running_node;

namespace {

thread_local constinit uint64_t next_sequence_nr = 0;

// Nodes whose destruction waits until the one in progress on this thread is done. The links and the
// sizes lie in the dead nodes' own scratch fields.
struct Graveyard {
  Node* first = nullptr;
  bool active = false;
};
thread_local constinit Graveyard graveyard;

// Edges of expired nodes that wait until the node in progress on this thread has released its own.
thread_local constinit std::vector<Edge>* loose_edges = nullptr;

// Events of the profiler carry the number that the next node of their thread gets.
[[maybe_unused]] const bool numbers_events = [] {
  recording::next_sequence = [] { return static_cast<int64_t>(next_sequence_nr); };
  return true;
}();

}  // namespace

Node::Node() : sequence_nr_(next_sequence_nr++) {}

Node::~Node() = default;

void Node::release_resources() {
  release_saved();
  extras_.reset();
  const bool outermost = loose_edges == nullptr;
  std::vector<Edge> own;
  if (outermost) loose_edges = &own;
  for (uint32_t i = 0; i < num_edges_; ++i) loose_edges->push_back(std::move(edges()[i]));
  if (!outermost) return;
  while (!own.empty()) {
    const Edge edge = std::move(own.back());
    own.pop_back();
  }
  loose_edges = nullptr;
}

NodeExtras::~NodeExtras() {
  if (metadata && release_py_object) release_py_object(metadata);
}

void* Node::operator new(size_t bytes) {
  return bytes <= small_blocks::kMaxSmallBytes ? small_blocks::allocate(bytes)
                                               : ::operator new(bytes);
}

void Node::operator delete(void* p, size_t bytes) {
  if (bytes <= small_blocks::kMaxSmallBytes) {
    small_blocks::deallocate(p, bytes);
  } else {
    ::operator delete(p, bytes);
  }
}

void Node::operator delete(Node* node, std::destroying_delete_t, size_t bytes) {
  node->scratch_.state = static_cast<uint32_t>(bytes);
  if (graveyard.active) {
    node->scratch_.owner.store(reinterpret_cast<GraphTask*>(graveyard.first),
                               std::memory_order_relaxed);
    graveyard.first = node;
    return;
  }
  graveyard.active = true;
  while (node) {
    const size_t size = node->scratch_.state;
    node->~Node();
    Node::operator delete(static_cast<void*>(node), size);
    node = graveyard.first;
    if (node) {
      graveyard.first =
          reinterpret_cast<Node*>(node->scratch_.owner.load(std::memory_order_relaxed));
    }
  }
  graveyard.active = false;
}

void Node::add_edge(Edge edge) {
  if (num_edges_ == edge_capacity_) {
    auto grown = std::make_unique<Edge[]>(edge_capacity_ * 2);
    for (uint32_t i = 0; i < num_edges_; ++i) grown[i] = std::move(edges()[i]);
    heap_edges_ = std::move(grown);
    edge_capacity_ *= 2;
  }
  edges()[num_edges_++] = std::move(edge);
}

void Node::add_next_edge(const Tensor& argument) { add_edge(gradient_edge(argument)); }

void Node::add_next_edge(TensorList arguments) {
  for (const Tensor& t : arguments) add_edge(gradient_edge(t));
}

bool Node::pass_wants(size_t i) const { return running_node.filter->wants(*edges()[i].function); }

uint32_t Node::add_undefined_output() {
  // Capacity of `more_outputs_` is the power of two at or above the count.
  const uint32_t more = num_outputs_ == 0 ? 0 : num_outputs_ - 1;
  if (num_outputs_ > 0 && (more & (more - 1)) == 0) {
    auto grown = std::make_unique<OutputMetadata[]>(more == 0 ? 1 : more * 2);
    for (uint32_t i = 0; i < more; ++i) grown[i] = std::move(more_outputs_[i]);
    more_outputs_ = std::move(grown);
  }
  return num_outputs_++;
}

uint32_t Node::add_output(const Tensor& t) {
  const uint32_t nr = add_undefined_output();
  set_output(nr, t);
  return nr;
}

void Node::set_output(size_t i, const Tensor& t) {
  OutputMetadata& m = i == 0 ? first_output_ : more_outputs_[i - 1];
  m.sizes.assign(t.sizes().data(), t.sizes().size());
  m.dtype = t.dtype();
  m.device = t.device();
}

NodeExtras& Node::make_extras() {
  if (!extras_) extras_ = std::make_unique<NodeExtras>();
  return *extras_;
}

void Node::lock() {
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
}

}  // namespace flambeau::autograd
