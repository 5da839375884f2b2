#include "aten/dispatch/recording.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "aten/dispatch/boxing.h"
#include "aten/dispatch/operator_traits.h"
#include "c10/core/allocator.h"
#include "c10/core/memory_note.h"

namespace flambeau::recording {

thread_local constinit Log* current = nullptr;
int64_t (*next_sequence)() = nullptr;

namespace {

// Address space, which costs memory as far as it is used; beyond, the list is copied.
constexpr size_t kFirstEvents = 1 << 16;

// Threads are numbered from 1 in the order in which they are first recorded.
uint32_t number_of_thread() {
  static std::atomic<uint32_t> last{0};
  thread_local constinit uint32_t number = 0;
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

uint32_t next_serial() {
  static std::atomic<uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Frees the log of a thread that ends while it is recorded.
struct AtThreadEnd {
  bool is_armed = false;
  ~AtThreadEnd() { stop(); }
};
thread_local AtThreadEnd at_thread_end;

void describe(const Tensor& t, Argument& out) {
  if (!t.defined()) return;
  out.tensors.push_back({DimVector(t.sizes()), DimVector(t.strides()), t.dtype()});
}

Argument described(const IValue& value) {
  Argument out;
  if (value.is_tensor()) {
    describe(value.tensor(), out);
  } else if (const auto* list = std::get_if<std::vector<Tensor>>(&value.payload())) {
    out.is_list = true;
    for (const Tensor& t : *list) describe(t, out);
  } else {
    out.value = value;
  }
  return out;
}

bool takes_tensors(const Stack& stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) return true;
    if (std::holds_alternative<std::vector<Tensor>>(stack[i].payload())) return true;
  }
  return false;
}

// The node that the operator may make has this number. Without gradients it makes none.
int64_t sequence_of(const Stack& stack) {
  const bool records = thread_state.grad_enabled &&
                       !(thread_state.excluded & DispatchKeySet(DispatchKey::Autograd).bits());
  return records && next_sequence && takes_tensors(stack) ? next_sequence() : -1;
}

void record_operator(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const DispatchKeySet rest = keys - kKey;
  if (!current) return redispatch_boxed(op, rest, stack);
  const Scope scope(current, current->begin(op, stack));
  redispatch_boxed(op, rest, stack);
}

void record_memory(const void* block, int64_t bytes) noexcept {
  if (!current || !current->options.memory) return;
  try {
    current->note_memory(block, bytes);
  } catch (const std::bad_alloc&) {
    // The operator that allocates fails by itself if memory is short; the event is left out.
  }
}

}  // namespace

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Log::Log(Options given) : options(given), serial(next_serial()), start_time(now()) {
  events.reserve(kFirstEvents);
  first_bytes = total_bytes_ = cpu_allocator()->stats().allocated_bytes;
  enter_thread();
}

void Log::enter_thread() {
  thread_ = number_of_thread();
  for (const auto& [number, tid] : threads) {
    if (number == thread_) return;
  }
  threads.emplace_back(thread_, syscall(SYS_gettid));
}

int32_t Log::push(Kind kind, int32_t name, int64_t sequence) {
  const auto index = static_cast<int32_t>(events.size());
  Event& event = events.emplace_back();
  event.kind = kind;
  event.name = name;
  event.sequence = sequence;
  event.parent = open_;
  event.thread = thread_;
  open_ = index;
  return index;
}

int32_t Log::begin(Kind kind, int32_t name, int64_t sequence) {
  const int32_t index = push(kind, name, sequence);
  events.back().start = now();
  return index;
}

int32_t Log::begin(const OperatorEntry& op, const Stack& stack) {
  const int32_t index = push(Kind::Operator, -1, sequence_of(stack));
  Event& event = events.back();
  event.op = &op;
  if (options.shapes) {
    event.arguments = static_cast<int32_t>(arguments.size());
    std::vector<Argument>& kept = arguments.emplace_back();
    kept.reserve(stack.size());
    for (size_t i = 0; i < stack.size(); ++i) kept.push_back(described(stack[i]));
  }
  event.start = now();
  return index;
}

int32_t Log::begin(Kind kind, const Note& note) {
  const int32_t index = push(kind, intern(note.name), note.sequence);
  if (options.shapes && kind == Kind::Node) {
    events.back().arguments = static_cast<int32_t>(arguments.size());
    std::vector<Argument>& kept = arguments.emplace_back();
    for (const Tensor& t : note.tensors) describe(t, kept.emplace_back());
  }
  events.back().start = now();
  return index;
}

void Log::end(int32_t event) noexcept {
  if (event < 0 || static_cast<size_t>(event) >= events.size()) return;
  if (events[event].end < 0) events[event].end = now();
  for (int32_t at = open_; at >= 0; at = events[at].parent) {
    if (at != event) continue;
    open_ = events[event].parent;
    return;
  }
}

void Log::note_memory(const void* block, int64_t bytes) {
  if (bytes > 0) {
    blocks_.insert_or_assign(block, bytes);
  } else if (blocks_.erase(block) == 0) {
    return;  // it was allocated before the start, or by a thread that is not recorded
  }
  total_bytes_ += bytes;
  memory.push_back(
      {now(), bytes, total_bytes_, reinterpret_cast<uintptr_t>(block), open_, thread_});
}

void Log::finish() {
  end_time = now();
  for (Event& event : events) {
    if (event.end < 0) event.end = end_time;
  }
}

int32_t Log::intern(std::string_view name) {
  const auto [at, is_new] =
      name_indices_.try_emplace(std::string(name), static_cast<int32_t>(names.size()));
  if (is_new) names.emplace_back(name);
  return at->second;
}

void start(Options options) {
  [[maybe_unused]] static const bool is_ready = [] {
    set_boxed_fallback(DispatchKey::Tracing, record_operator);
    c10::note_memory = record_memory;
    return true;
  }();
  stop();
  at_thread_end.is_armed = true;  // constructs it
  current = new Log(options);
  thread_state.included |= kKey.bits();
}

std::unique_ptr<Log> stop() {
  thread_state.included &= ~kKey.bits();
  std::unique_ptr<Log> log(std::exchange(current, nullptr));
  if (log) log->finish();
  return log;
}

Log* exchange(Log* log) {
  if (log) log->enter_thread();
  return std::exchange(current, log);
}

}  // namespace flambeau::recording
