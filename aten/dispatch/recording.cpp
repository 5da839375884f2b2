#include "aten/dispatch/recording.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

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

bool takes_tensors(const Stack& stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) return true;
    if (std::holds_alternative<std::vector<Tensor>>(stack[i].payload())) return true;
  }
  return false;
}

void record_operator(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const DispatchKeySet rest = keys - kKey;
  Log* const log = current;
  if (!log) return redispatch_boxed(op, rest, stack);
  const int32_t event = log->begin(op, takes_tensors(stack));
  if (log->options.shapes) {
    for (size_t i = 0; i < stack.size(); ++i) log->note(stack[i]);
  }
  log->launch();
  const Scope scope(log, event);
  redispatch_boxed(op, rest, stack);
  if (log->options.results && log == log_of_thread()) log->note_results(event, stack);
}

void record_memory(const void* block, int64_t bytes) noexcept {
  if (!current || !current->options.memory) return;
  try {
    current->note_memory(block, bytes);
  } catch (const std::bad_alloc&) {
    // The operator that allocates fails by itself if memory is short; the event is left out.
  }
}

thread_local constinit Log* paused = nullptr;

#if defined(__x86_64__)
// Bit 8 of edx: the counter runs at one rate in all states of the processor (AMD and Intel manuals,
// CPUID leaf 0x80000007).
bool has_steady_counter() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1U << 8));
}
const bool kHasSteadyCounter = has_steady_counter();
#endif

// Both clocks at one moment, when the library was loaded. The rate is more exact the longer ago
// that was.
struct Anchor {
  int64_t ns = now(), ticks = recording::ticks();
};
const Anchor kAnchor;

}  // namespace

int64_t ticks() {
#if defined(__x86_64__)
  if (kHasSteadyCounter) [[likely]]
    return static_cast<int64_t>(__rdtsc());
#endif
  return now();
}

int64_t sequence_of(bool takes_tensors) {
  const bool records = thread_state.grad_enabled &&
                       !(thread_state.excluded & DispatchKeySet(DispatchKey::Autograd).bits());
  return records && next_sequence && takes_tensors ? next_sequence() : -1;
}

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Log::Log(Options given) : options(given), serial(next_serial()), start_time(now()) {
  start_ticks_ = ticks();
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
  launch();
  return index;
}

int32_t Log::begin(const OperatorEntry& op, bool takes_tensors) {
  const int32_t index = push(Kind::Operator, -1, sequence_of(takes_tensors));
  events.back().op = &op;
  if (options.shapes) events.back().arguments = begin_arguments();
  return index;
}

int32_t Log::begin(std::string_view qualified_name, bool takes_tensors) {
  const int32_t index = push(Kind::Operator, intern(qualified_name), sequence_of(takes_tensors));
  if (options.shapes) events.back().arguments = begin_arguments();
  return index;
}

int32_t Log::begin(Kind kind, const Note& given) {
  const int32_t index = push(kind, intern(given.name), given.sequence);
  if (options.shapes && kind == Kind::Node) {
    events.back().arguments = begin_arguments();
    for (const Tensor& t : given.tensors) note(t);
  }
  launch();
  return index;
}

int64_t Log::begin_arguments() {
  noted_ = static_cast<int64_t>(words.size());
  words.push_back(0);
  return noted_;
}

void Log::add_word(Word kind, size_t number) {
  ++words[noted_];
  words.push_back(static_cast<int64_t>(number << 8) | static_cast<int64_t>(kind));
}

void Log::describe(const Tensor& t) {
  words.push_back(t.dim() | static_cast<int64_t>(t.dtype()) << 32);
  words.insert(words.end(), t.sizes().begin(), t.sizes().end());
  words.insert(words.end(), t.strides().begin(), t.strides().end());
  if (!options.results) return;
  const void* const storage = t.storage() ? t.storage().get() : nullptr;
  words.push_back(reinterpret_cast<intptr_t>(t.impl()));
  words.push_back(reinterpret_cast<intptr_t>(storage));
  words.push_back(t.storage_offset());
  words.push_back(static_cast<int64_t>(t.device().type) | int64_t{t.device().index} << 32);
}

void Log::note(const Tensor& tensor) {
  add_word(tensor.defined() ? Word::Tensor : Word::None, tensor.defined());
  if (tensor.defined()) describe(tensor);
}

void Log::note(TensorList list) {
  size_t count = 0;
  for (const Tensor& t : list) count += t.defined();
  add_word(Word::Tensors, count);
  for (const Tensor& t : list) {
    if (t.defined()) describe(t);
  }
}

void Log::note(const IValue& value) {
  if (value.is_tensor()) return note(value.tensor());
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value.payload()))
    return note(TensorList(*list));
  if (value.is_none()) return add_word(Word::None, 0);
  add_word(Word::Value, values.size());
  values.push_back(value);
}

void Log::note_results(int32_t event, const Stack& stack) {
  results[event] = begin_arguments();
  for (size_t i = 0; i < stack.size(); ++i) note(stack[i]);
}

void Log::end(int32_t event) noexcept {
  if (event < 0 || static_cast<size_t>(event) >= events.size()) return;
  if (events[event].end < 0) events[event].end = ticks();
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
      {ticks(), bytes, total_bytes_, reinterpret_cast<uintptr_t>(block), open_, thread_});
}

void Log::finish() {
  end_time = now();
  const int64_t end_ticks = ticks();
  const double rate = static_cast<double>(end_time - kAnchor.ns) /
                      static_cast<double>(std::max<int64_t>(end_ticks - kAnchor.ticks, 1));
  // In order, because equal ticks must stay equal and later ones must not become earlier.
  const auto to_ns = [&](int64_t at) {
    const auto since = static_cast<int64_t>(static_cast<double>(at - start_ticks_) * rate);
    return std::min(start_time + since, end_time);
  };
  for (Event& event : events) {
    event.start = to_ns(event.start);
    event.end = event.end < 0 ? end_time : to_ns(event.end);
  }
  for (MemoryEvent& event : memory) event.time = to_ns(event.time);
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
  set_collecting(true);
  thread_state.included &= ~kKey.bits();
  std::unique_ptr<Log> log(std::exchange(current, nullptr));
  if (log) log->finish();
  return log;
}

void set_collecting(bool is_collecting) {
  Log*& from = is_collecting ? paused : current;
  if (!from) return;
  (is_collecting ? current : paused) = std::exchange(from, nullptr);
  if (is_collecting) {
    thread_state.included |= kKey.bits();
  } else {
    thread_state.included &= ~kKey.bits();
  }
}

Log* log_of_thread() { return current ? current : paused; }

Log* exchange(Log* log) {
  if (log) log->enter_thread();
  return std::exchange(current, log);
}

}  // namespace flambeau::recording
