#include "aten/autograd/graph_task.h"

#include <algorithm>
#include <unordered_set>

#include "aten/autograd/accumulate_grad.h"
#include "aten/autograd/anomaly.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/stand_in.h"
#include "aten/autograd/variable.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/dispatch/recording.h"
#include "c10/core/interrupt.h"

namespace flambeau::autograd {

namespace {

std::atomic<uint64_t> last_id{0};
thread_local constinit GraphTask* current_task = nullptr;

}  // namespace

uint64_t current_pass() { return current_task ? current_task->id() : 0; }
uint64_t outermost_pass() { return current_task ? current_task->outermost().id() : 0; }
bool current_pass_reaches(Node& node) { return current_task && current_task->wants(node); }

void add_pass_hook(intrusive_ptr<PassHook> hook) {
  check(current_task,
        "queue_callback: Final callbacks can only be installed during backward pass: ",
        "expected a call within a backward pass, got one outside of it");
  current_task->outermost().add_hook(std::move(hook));
}

bool current_pass_keeps_graph() { return !current_task || current_task->keeps_graph(); }
bool current_pass_is_filtered() { return current_task && current_task->is_filtered(); }

GraphTask::GraphTask(const BackwardOptions& options)
    : id_(last_id.fetch_add(1, std::memory_order_relaxed) + 1), options_(options) {}

GraphTask::~GraphTask() {
  // A node that the pass did not reach in the end may be gone only after its owner is cleared here.
  for (const State& s : states_) {
    GraphTask* self = this;
    s.node->scratch().owner.compare_exchange_strong(self, nullptr, std::memory_order_release,
                                                    std::memory_order_relaxed);
  }
}

// --- which nodes --------------------------------------------------------------------------------

uint32_t GraphTask::find(Node& node) const {
  if (node.scratch().owner.load(std::memory_order_acquire) == this) return node.scratch().state;
  if (shared_.empty()) return kNone;
  const auto it = shared_.find(&node);
  return it == shared_.end() ? kNone : it->second;
}

uint32_t GraphTask::reach(Node& node) {
  const uint32_t known = find(node);
  if (known != kNone) return known;
  const auto index = static_cast<uint32_t>(states_.size());
  states_.push_back({&node});
  GraphTask* nobody = nullptr;
  if (node.scratch().owner.compare_exchange_strong(nobody, this, std::memory_order_acq_rel)) {
    node.scratch().state = index;
  } else {
    shared_.emplace(&node, index);
  }
  return index;
}

void GraphTask::discover(ArrayRef<Edge> roots) {
  for (const Edge& root : roots) reach(*root.function);
  std::unordered_set<const Node*> ends;
  if (options_.stops_at_captures) {
    for (const Edge& target : targets_) ends.insert(target.function.get());
  }
  // The list of states grows while it is walked: it is the queue of a breadth-first search.
  for (size_t i = 0; i < states_.size(); ++i) {
    const Node& node = *states_[i].node;
    if (ends.contains(&node)) continue;
    for (size_t e = 0; e < node.num_edges(); ++e) {
      if (node.edge(e).is_valid()) ++states_[reach(*node.edge(e).function)].waiting_for;
    }
  }
}

void GraphTask::set_targets(ArrayRef<Edge> targets, bool accumulate) {
  targets_ = targets.vec();
  accumulate_ = accumulate;
  filtered_ = true;
  captured_.resize(accumulate ? 0 : targets.size());
}

void GraphTask::restrict_to_targets() {
  for (State& s : states_) s.runs = s.wanted = false;
  captures_.resize(targets_.size());
  for (uint32_t t = 0; t < targets_.size(); ++t) {
    const uint32_t index = targets_[t].is_valid() ? find(*targets_[t].function) : kNone;
    if (index == kNone) continue;
    State& state = states_[index];
    state.wanted = true;
    if (accumulate_) {
      state.runs = state.node->accumulates();
    } else {
      captures_[t] = {targets_[t].input_nr, state.first_capture};
      state.first_capture = t;
    }
  }
  // Topological order, then from the leaves back: a node runs if something behind it is wanted.
  std::vector<uint32_t> waiting, order;
  for (const State& s : states_) waiting.push_back(s.waiting_for);
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if (waiting[i] == 0) order.push_back(i);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& node = *states_[order[i]].node;
    if (ends_at(states_[order[i]])) continue;
    for (size_t e = 0; e < node.num_edges(); ++e) {
      if (!node.edge(e).is_valid()) continue;
      const uint32_t next = find(*node.edge(e).function);
      if (--waiting[next] == 0) order.push_back(next);
    }
  }
  for (size_t i = order.size(); i-- > 0;) {
    State& s = states_[order[i]];
    if (ends_at(s)) continue;
    for (size_t e = 0; e < s.node->num_edges() && !s.runs; ++e) {
      const Edge& edge = s.node->edge(e);
      s.runs = edge.is_valid() && states_[find(*edge.function)].wanted;
    }
    s.wanted = s.wanted || s.runs;
  }
}

bool GraphTask::wants(Node& node) {
  const uint32_t index = find(node);
  return index != kNone && states_[index].wanted;
}

// --- gradients on their way ---------------------------------------------------------------------

namespace {

bool may_add_into(const Tensor& sum, const Tensor& grad) {
  // The value of a wrapper may be shared.
  if (stands_for_another(sum) || stands_for_another(grad)) return false;
  if (is_sparse(sum) || is_sparse(grad)) return false;
  return !thread_state.grad_enabled && sum.impl()->use_count() == 1 &&
         sum.storage()->use_count() == 1 && sum.dtype() == grad.dtype() &&
         sum.sizes() == grad.sizes() && sum.impl()->is_non_overlapping_and_dense();
}

}  // namespace

void GraphTask::deliver(uint32_t index, uint32_t output_nr, Tensor&& grad) {
  State& state = states_[index];
  if (state.buffer == kNone) {
    if (free_buffers_.empty()) {
      free_buffers_.push_back(static_cast<uint32_t>(buffers_.size()));
      buffers_.emplace_back();
    }
    state.buffer = free_buffers_.back();
    free_buffers_.pop_back();
    buffers_[state.buffer].resize(state.node->num_outputs());
  }
  Tensor& sum = buffers_[state.buffer][output_nr];
  if (!sum.defined()) {
    sum = std::move(grad);
  } else if (may_add_into(sum, grad)) {
    operators::add_inplace(sum, grad);
  } else {
    sum = operators::add(sum, grad);
  }
}

void GraphTask::push_ready(uint32_t index) {
  ready_.push_back({states_[index].node->sequence_nr(), index});
  std::push_heap(ready_.begin(), ready_.end());
}

void GraphTask::shape_gradient(const Node& node, size_t i, const OutputMetadata& expected,
                               Tensor& grad) const {
  if (expected.dtype == ScalarType::Undefined) return;
  if (grad.sizes() != expected.sizes.ref()) [[unlikely]] {
    check(is_broadcastable_to(expected.sizes, grad.sizes()), "Function ", node.name(),
          " returned an invalid gradient at index ", i, " - got ", grad.sizes(),
          " but expected shape compatible with ", expected.sizes);
    grad = sum_to_size(grad, expected.sizes);
  }
  if (grad.dtype() != expected.dtype && !expected.any_dtype) [[unlikely]] {
    grad = operators::to_dtype(grad, expected.dtype);
  }
  if (grad.device() != expected.device) [[unlikely]] {
    fail(ErrorKind::Runtime, "Function ", node.name(), " returned an invalid gradient at index ", i,
         " - expected device ", expected.device, " but got ", grad.device());
  }
}

void GraphTask::send(Node& node, Gradients&& grads) {
  const size_t n = node.num_edges();
  for (size_t i = n; i < grads.size(); ++i) {
    check(!grads[i].defined(), node.name(), ": expected ", n, " gradients, got ", grads.size());
  }
  for (size_t i = 0; i < n; ++i) {
    const Edge& edge = node.edge(i);
    if (!edge.is_valid()) continue;
    const uint32_t next = find(*edge.function);
    // A hook may have given the graph new edges; they are not part of this pass.
    if (next == kNone) continue;
    if (i < grads.size() && grads[i].defined() && states_[next].wanted) {
      shape_gradient(node, i, edge.function->output(edge.input_nr), grads[i]);
      deliver(next, edge.input_nr, std::move(grads[i]));
    }
    if (--states_[next].waiting_for == 0) push_ready(next);
  }
}

// --- running ------------------------------------------------------------------------------------

void GraphTask::run_tensor_hooks(Node& node, Gradients& grads) {
  const auto run_list = [&](const HookList<TensorHook>& list) {
    if (list.empty()) return;
    const UserCodeScope scope;
    for (const auto& entry : list.entries()) {
      if (!grads[entry.output_nr].defined()) continue;
      Tensor replaced = entry.hook->call(grads[entry.output_nr]);
      if (replaced.defined()) grads[entry.output_nr] = std::move(replaced);
    }
  };
  if (node.accumulates()) {
    const AutogradMeta* meta = meta_of(static_cast<AccumulateGrad&>(node).variable());
    if (meta && meta->extras) run_list(meta->extras->leaf_hooks);
  }
  if (!node.extras()) return;
  run_list(node.extras()->tensor_hooks);
  for (const NodeExtras::Retained& r : node.extras()->retained) {
    const Tensor t(r.tensor.lock());
    if (!t.defined() || !grads[r.output_nr].defined()) continue;
    Tensor& sum = make_meta(t).grad;
    sum = sum.defined() ? operators::add(sum, grads[r.output_nr])
                        : operators::clone(grads[r.output_nr]);
  }
}

void GraphTask::capture(const State& state, const Gradients& grads) {
  for (uint32_t c = state.first_capture; c != kNone; c = captures_[c].next) {
    captured_[c] = grads[captures_[c].output_nr];
  }
}

namespace {

// What the profiler keeps of a node; the sink of a leaf belongs to no forward operator.
recording::Note noted(const Node& node, const Gradients* grads) {
  recording::Note note;
  note.name = node.name();
  note.sequence = node.accumulates() ? -1 : static_cast<int64_t>(node.sequence_nr());
  for (size_t i = 0; grads && i < grads->size(); ++i) note.tensors.push_back((*grads)[i]);
  return note;
}

}  // namespace

Gradients GraphTask::call(Node& node, Gradients&& grads) {
  const recording::Scope scope(recording::Kind::Node, [&] { return noted(node, &grads); });
  const RunningNode previous = std::exchange(running_node, {&node, filtered_ ? this : nullptr});
  struct Restore {
    const RunningNode& previous;
    ~Restore() { running_node = previous; }
  } restore{previous};
  if (node.runs_user_code()) {
    const UserCodeScope scope;
    Gradients out = node.apply(std::move(grads));
    if (!options_.retain_graph) node.release_saved();
    return out;
  }
  // A sink has a lock of its own around the sum alone: its hooks may run a pass over the same leaf.
  if (node.accumulates()) return node.apply(std::move(grads));
  struct Hold {
    Node& node;
    explicit Hold(Node& n) : node(n) { node.lock(); }
    ~Hold() { node.unlock(); }
  } hold(node);
  Gradients out = node.apply(std::move(grads));
  if (!options_.retain_graph) node.release_saved();
  return out;
}

void GraphTask::evaluate(uint32_t index) {
  State& state = states_[index];
  Node& node = *state.node;
  const recording::Scope scope(recording::Kind::Evaluation, [&] { return noted(node, nullptr); });
  Gradients grads;
  if (state.buffer != kNone) {
    grads = std::move(buffers_[state.buffer]);
    free_buffers_.push_back(state.buffer);
    state.buffer = kNone;
  } else {
    grads.resize(node.num_outputs());
  }
  if ((node.extras() || node.accumulates()) && !is_incomplete(state)) run_tensor_hooks(node, grads);
  if (filtered_) {
    capture(state, grads);
    if (ends_at(state)) return;
    if (!state.runs) return send(node, Gradients());
  }
  Gradients out;
  if (NodeExtras* extras = node.extras(); extras || anomaly_mode()) [[unlikely]] {
    if (extras && !extras->pre_hooks.empty()) {
      const UserCodeScope scope;
      for (const auto& entry : extras->pre_hooks.entries()) entry.hook->call(grads);
    }
    const Gradients received = extras && !extras->post_hooks.empty() ? grads : Gradients();
    out = call_watched(node, [&] { return call(node, std::move(grads)); });
    extras = node.extras();
    if (received.size() > 0 && extras && !extras->post_hooks.empty()) {
      const UserCodeScope scope;
      for (const auto& entry : extras->post_hooks.entries()) entry.hook->call(out, received);
    }
  } else {
    out = call(node, std::move(grads));
  }
  send(node, std::move(out));
}

GraphTask& GraphTask::outermost() {
  GraphTask* task = this;
  while (task->outer_) task = task->outer_;
  return *task;
}

void GraphTask::run_hooks() {
  // The list grows if a hook adds others.
  for (size_t i = 0; i < hooks_.size(); ++i) {
    const UserCodeScope scope;
    const intrusive_ptr<PassHook> hook = hooks_[i];
    hook->call();
  }
}

void GraphTask::run(ArrayRef<Edge> roots, Gradients&& grads) {
  struct Current {
    GraphTask* outer;
    explicit Current(GraphTask* task) : outer(std::exchange(current_task, task)) {}
    ~Current() { current_task = outer; }
  } current(this);
  outer_ = current.outer;
  discover(roots);
  if (filtered_) restrict_to_targets();
  for (uint32_t i = 0; i < roots.size(); ++i) {
    const Edge& root = roots[i];
    shape_gradient(*root.function, i, root.function->output(root.input_nr), grads[i]);
    deliver(find(*root.function), root.input_nr, std::move(grads[i]));
  }
  for (const Edge& root : roots) {
    const uint32_t index = find(*root.function);
    State& state = states_[index];
    if (state.waiting_for != 0) continue;
    state.waiting_for = kNone;  // queued: a second root of the same node must not queue it again
    push_ready(index);
  }
  constexpr uint32_t kNodesPerCheck = 64;  // long operators look by themselves
  for (uint32_t done = 1; !ready_.empty(); ++done) {
    if (done % kNodesPerCheck == 0) check_interrupt();
    const uint32_t index = ready_.front().state;
    std::pop_heap(ready_.begin(), ready_.end());
    ready_.pop_back();
    evaluate(index);
  }
  run_hooks();
}

}  // namespace flambeau::autograd
