#pragma once
// What a thread runs, as events for the profiler. A recorded thread has the key Tracing, whose
// boxed fallback makes an event of each operator; other threads never test for recording. A log
// belongs to one thread, and no other thread may touch it.
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/core/tensor.h"
#include "aten/dispatch/stack.h"
#include "c10/core/thread_state.h"

namespace flambeau {
struct OperatorEntry;
}

namespace flambeau::recording {

int64_t now();  // ns of the system's clock
// Ticks of the processor's counter where it runs at one rate, else ns: half the cost of `now`.
int64_t ticks();

inline constexpr DispatchKeySet kKey(DispatchKey::Tracing);

enum class Kind : uint8_t {
  Operator,
  Evaluation,  // the engine's work for a node: hooks, the node itself, sums of gradients
  Node,        // a function of the backward graph
  Range,       // of record_function
  Python,      // a function with code
  Native,      // a builtin function
  Module,      // a call of an nn.Module
};

struct Options {
  bool shapes = false;  // sizes, strides and dtypes of tensors, and the other arguments
  bool memory = false;
  bool results = false;  // those of operators, and which tensor is which
};

// What a word in Log::words begins. Arguments of an event are the number of them, then for each a
// word of the kind and, from bit 8 on, a number: Tensor and Tensors have so many tensors behind
// them, Value the index in Log::values. A tensor is a word of dim and, from bit 32 on, dtype, then
// the sizes and the strides. With Options::results, the addresses of the tensor and its storage,
// the offset and the device (its type, and its index from bit 32 on) follow: graphs of execution
// tell tensors apart by them.
enum class Word : uint8_t { None, Value, Tensor, Tensors };

struct Event {
  int64_t start = 0, end = -1;  // ticks; in Log's results ns of the system's clock. -1: not ended
  int64_t sequence = -1;        // of the node that an operator makes, or that is run; -1: none
  const OperatorEntry* op = nullptr;
  int32_t name = -1;  // in Log::names, for events that are not operators
  int32_t parent = -1;
  int64_t arguments = -1;  // where they begin in Log::words
  uint32_t thread = 0;
  Kind kind = Kind::Operator;
};

struct MemoryEvent {
  int64_t time, bytes, total;
  uintptr_t address;
  int32_t event;  // that was running; -1: none
  uint32_t thread;
};

// What an event of the engine starts with. Read only while a thread is recorded.
struct Note {
  const char* name = nullptr;
  int64_t sequence = -1;
  std::vector<Tensor> tensors;
};

class Log {
 public:
  explicit Log(Options options);
  int32_t begin(Kind kind, int32_t name, int64_t sequence = -1);
  // Without arguments, which `note` adds before `launch`.
  int32_t begin(const OperatorEntry& op, bool takes_tensors);
  int32_t begin(std::string_view qualified_name, bool takes_tensors);  // of a program's operator
  void note(const Tensor& tensor);
  void note(TensorList list);
  void note(const IValue& value);
  void launch() { events.back().start = ticks(); }
  void note_results(int32_t event, const Stack& stack);
  int32_t begin(Kind kind, const Note& note);
  // Ends the event. Events inside that are still open stay so, but hold no further ones.
  void end(int32_t event) noexcept;
  void note_memory(const void* block, int64_t bytes);
  void finish();  // ends what is still open
  // The index of a name in `names`.
  int32_t intern(std::string_view name);

  const Options options;
  const uint32_t serial;  // no other log of the process has it
  std::vector<Event> events;
  std::vector<MemoryEvent> memory;
  std::vector<int64_t> words;
  std::vector<IValue> values;
  std::unordered_map<int32_t, int64_t> results;  // event -> where they begin in `words`
  std::vector<std::string> names;
  std::vector<std::pair<uint32_t, int64_t>> threads;  // numbers and the system's numbers
  int64_t start_time, end_time = -1;
  int64_t first_bytes = 0;  // that were allocated at the start

 private:
  friend Log* exchange(Log* log);
  void enter_thread();
  int32_t push(Kind kind, int32_t name, int64_t sequence);
  int64_t begin_arguments();
  void add_word(Word kind, size_t number);
  void describe(const Tensor& tensor);

  int64_t noted_ = 0;  // the word that counts the arguments which are being noted
  int64_t start_ticks_ = 0;
  int32_t open_ = -1;  // innermost event that is running
  uint32_t thread_ = 0;
  int64_t total_bytes_ = 0;
  std::unordered_map<const void*, int64_t> blocks_;  // that were allocated since the start
  std::unordered_map<std::string, int32_t> name_indices_;
};

extern thread_local constinit Log* current;
// The number that the next node of this thread gets; null without autograd.
extern int64_t (*next_sequence)();

inline bool is_on() { return thread_state.included & kKey.bits(); }
// The number of the node that an operator may make; -1 without gradients.
int64_t sequence_of(bool takes_tensors);
// Starts recording this thread, in place of a log that it may have.
void start(Options options);
// The finished log, or null if the thread is not recorded.
std::unique_ptr<Log> stop();
// Stops recording this thread for a while, or goes on, in the same log. No effect without one.
void set_collecting(bool is_collecting);
// The log of this thread, also while it is not collecting.
Log* log_of_thread();
// Gives the thread another log, which may be null, and returns the one it had.
Log* exchange(Log* log);

// An event as long as the object lives, if the thread is recorded.
class Scope {
 public:
  template <typename MakeNote>
  Scope(Kind kind, const MakeNote& make_note) {
    if (!is_on() || !current) [[likely]]
      return;
    log_ = current;
    event_ = log_->begin(kind, make_note());
  }
  Scope(Log* log, int32_t event) : log_(log), event_(event) {}
  ~Scope() {
    if (log_ && log_ == log_of_thread()) [[unlikely]]
      log_->end(event_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Log* log_ = nullptr;
  int32_t event_ = -1;
};

}  // namespace flambeau::recording
