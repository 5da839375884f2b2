// The allocator tells of its actions through `note_action`, from any thread. A thread with the GIL
// reads its Python stack. A thread that has left Python for a long operator uses the stack that it
// had on leaving; threads of OpenMP have none. Taking the GIL here could wait for a thread that
// waits for this one.
#include "python/csrc/memory_history.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/autograd/engine.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/memory_note.h"
#include "c10/core/segments.h"
#include "python/csrc/call_tree.h"
#include "python/csrc/lists.h"

namespace flambeau::python {
namespace {

using c10::MemoryAction;

// Rows of the history; python/flambeau/cpu/memory.py names them in this order.
enum class Row : uint8_t {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  OutOfMemory,
  Snapshot
};

struct Entry {
  int64_t time;  // ns of the system's clock
  uintptr_t address;
  size_t bytes;
  int32_t stack;
  uint32_t thread;  // the system's number
  Row row;
  bool in_backward;
};

struct Options {
  bool keeps_rows = false;
  bool stacks = false;  // of blocks that are in use
  bool stacks_of_allocations = false, stacks_of_releases = false;
  uint32_t skipped = 0;  // a bit per Row
  size_t most_rows = 0;
};

struct InUse {
  size_t bytes;
  int32_t stack;
  int64_t time;
  bool in_backward;
};

int64_t wall_time() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

uint32_t thread_number() {
  thread_local constinit pid_t number = 0, process = 0;
  if (process != getpid()) {  // a child's thread has another number
    process = getpid();
    number = static_cast<pid_t>(syscall(SYS_gettid));
  }
  return static_cast<uint32_t>(number);
}

// A stack of the tree of calls, in which another thread may renumber the calls.
struct Stack {
  int32_t call = kNoCall;
  uint64_t age = 0;  // of the numbers
};

// Whether this thread may use Python.
bool has_gil() {
  return Py_IsInitialized() && PyGILState_GetThisThreadState() && PyGILState_Check();
}

class History {
 public:
  void start(const Options& options) {
    const std::lock_guard lock(mutex_);
    options_ = options;
    is_on_ = true;
    order_rows();
    if (rows_.size() > options.most_rows) {
      const size_t lost = rows_.size() - options.most_rows;
      rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(lost));
      lost_ += lost;
    }
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    is_on_ = false;
    options_ = {};
    in_use_.clear();  // releases are not seen from now on
  }

  // With the GIL, also the functions below. Both return code for the caller to release without the
  // lock, because that may run Python.
  std::vector<Ref> clear() {
    const std::lock_guard lock(mutex_);
    rows_.clear();
    oldest_ = lost_ = 0;
    return drop_calls();
  }
  std::vector<Ref> dropped_code() {
    const std::lock_guard lock(mutex_);
    return std::exchange(dropped_, {});
  }

  Stack stack_of(const std::vector<Place>& places) {
    const std::lock_guard lock(mutex_);
    if (calls_.is_due()) {
      // Python must not run in an allocation, so that the code is released later.
      dropped_.reserve(dropped_.size() + calls_.calls().size());
      for (Ref& code : drop_calls()) dropped_.push_back(std::move(code));
    }
    if (!dropped_.empty() && !release_is_pending_)
      release_is_pending_ = Py_AddPendingCall(&release_dropped, nullptr) == 0;
    return {calls_.add(places), age_};
  }

  void add(MemoryAction action, const void* block, size_t bytes, Stack stack, bool in_backward) {
    const Entry entry{wall_time(),     reinterpret_cast<uintptr_t>(block),
                      bytes,           kNoCall,
                      thread_number(), Row::Alloc,
                      in_backward};
    const std::lock_guard lock(mutex_);
    if (!is_on_) return;
    const int32_t call = stack.age == age_ ? stack.call : kNoCall;
    if (action == MemoryAction::Allocate) {
      in_use_.insert_or_assign(block, InUse{bytes, call, entry.time, in_backward});
    } else if (action == MemoryAction::Release) {
      in_use_.erase(block);
    }
    add_rows(action, entry, call);
  }

  void add_snapshot() {
    const std::lock_guard lock(mutex_);
    push({wall_time(), 0, 0, kNoCall, thread_number(), Row::Snapshot, false});
  }

  struct Copy {
    std::vector<Entry> rows;  // oldest first
    std::vector<Call> calls;
    std::vector<std::pair<const void*, InUse>> in_use;
    size_t lost = 0;  // rows that newer ones have replaced
  };
  Copy copy() {
    const std::lock_guard lock(mutex_);
    Copy found;
    found.rows.assign(rows_.begin() + static_cast<ptrdiff_t>(oldest_), rows_.end());
    found.rows.insert(found.rows.end(), rows_.begin(),
                      rows_.begin() + static_cast<ptrdiff_t>(oldest_));
    found.calls = calls_.calls();
    found.in_use.assign(in_use_.begin(), in_use_.end());
    found.lost = lost_;
    return found;
  }
  Options options() {
    const std::lock_guard lock(mutex_);
    return options_;
  }

 private:
  static int release_dropped(void*);

  // Forgets the calls that belong to no row and no block in use.
  std::vector<Ref> drop_calls() {
    std::vector<int32_t*> used;
    used.reserve(rows_.size() + in_use_.size());
    for (Entry& row : rows_) used.push_back(&row.stack);
    for (auto& [block, use] : in_use_) used.push_back(&use.stack);
    std::vector<Ref> dropped = calls_.keep(used);
    ++age_;
    return dropped;
  }

  void add_rows(MemoryAction action, Entry entry, int32_t stack) {
    const auto add_row = [&](Row row, bool has_stack) {
      entry.row = row;
      entry.stack = has_stack ? stack : kNoCall;
      push(entry);
    };
    switch (action) {
      case MemoryAction::Allocate:
        return add_row(Row::Alloc, options_.stacks_of_allocations);
      case MemoryAction::Release:
        add_row(Row::FreeRequested, options_.stacks_of_releases);
        return add_row(Row::FreeCompleted, options_.stacks_of_releases);
      case MemoryAction::Obtain:
        return add_row(Row::SegmentAlloc, options_.stacks_of_allocations);
      case MemoryAction::Return:
        return add_row(Row::SegmentFree, options_.stacks_of_releases);
      case MemoryAction::Fail:
        return add_row(Row::OutOfMemory, options_.stacks_of_allocations);
    }
  }

  void push(const Entry& entry) {
    if (!options_.keeps_rows || (options_.skipped >> static_cast<int>(entry.row)) & 1) return;
    if (rows_.size() < options_.most_rows) {
      rows_.push_back(entry);
      return;
    }
    rows_[oldest_] = entry;
    oldest_ = (oldest_ + 1) % rows_.size();
    ++lost_;
  }

  void order_rows() {
    std::rotate(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(oldest_), rows_.end());
    oldest_ = 0;
  }

  c10::ForkMutex mutex_;
  Options options_;
  std::vector<Entry> rows_;  // a ring once it is full
  size_t oldest_ = 0, lost_ = 0;
  CallTree calls_;
  uint64_t age_ = 0;  // grows when calls are renumbered
  std::unordered_map<const void*, InUse> in_use_;
  std::vector<Ref> dropped_;  // code
  bool release_is_pending_ = false;
  bool is_on_ = false;
};

// Never destroyed: threads may outlive main.
History& history() {
  static History* const instance = new History;
  return *instance;
}

// Python calls this between two instructions of the main thread.
int History::release_dropped(void*) {
  history().release_is_pending_ = false;
  history().dropped_code();
  return 0;
}

thread_local constinit Stack stack_on_leaving;

Stack stack_here() {
  if (!has_gil()) return stack_on_leaving;
  std::vector<Place> places;
  places.reserve(64);
  read_places(places);
  return history().stack_of(places);
}

bool needs_stack(const Options& options, MemoryAction action) {
  switch (action) {
    case MemoryAction::Allocate:
      return options.stacks;
    case MemoryAction::Obtain:
    case MemoryAction::Fail:
      return options.keeps_rows && options.stacks_of_allocations;
    case MemoryAction::Release:
    case MemoryAction::Return:
      return options.keeps_rows && options.stacks_of_releases;
  }
  return false;
}

void note(MemoryAction action, const void* block, size_t bytes) noexcept {
  try {
    const Stack stack = needs_stack(history().options(), action) ? stack_here() : Stack();
    history().add(action, block, bytes, stack, autograd::current_pass() != 0);
  } catch (const std::bad_alloc&) {
    // The row is left out. An operator that allocates fails by itself if memory is short.
  }
}

// --- functions of _C -----------------------------------------------------------------------------

// _memory_history_start(keeps_rows, context, most_rows, skipped): context is 0 for no stacks, 1 for
// those of blocks in use, 2 for those of allocations too, 3 for those of releases too.
PyObject* start(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int keeps_rows, context;
    Py_ssize_t most_rows;
    unsigned skipped;
    if (!PyArg_ParseTuple(args, "pinI", &keeps_rows, &context, &most_rows, &skipped))
      return nullptr;
    history().start({.keeps_rows = keeps_rows != 0,
                     .stacks = context >= 1,
                     .stacks_of_allocations = context >= 2,
                     .stacks_of_releases = context >= 3,
                     .skipped = skipped,
                     .most_rows = static_cast<size_t>(most_rows)});
    c10::note_action.store(&note, std::memory_order_relaxed);
    Py_RETURN_NONE;
  });
}

// _memory_history_stop(): the rows stay.
PyObject* stop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    c10::note_action.store(nullptr, std::memory_order_relaxed);
    history().stop();
    Py_RETURN_NONE;
  });
}

// _memory_history_clear()
PyObject* clear(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    history().clear();
    Py_RETURN_NONE;
  });
}

PyObject* address_of(uintptr_t address) {
  return PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(address));
}

// (parent, file, line, function)
Ref converted(const Call& call) {
  const int line = PyCode_Addr2Line(call.code, call.instruction);
  return Ref::checked(
      Py_BuildValue("(iOiO)", call.parent, call.code->co_filename, line, call.code->co_qualname));
}

// (row, address, bytes, stack, time in ns, thread, in backward)
Ref converted(const Entry& e) {
  return Ref::checked(Py_BuildValue(
      "(iNniLIN)", static_cast<int>(e.row), address_of(e.address), static_cast<Py_ssize_t>(e.bytes),
      e.stack, static_cast<long long>(e.time), e.thread, PyBool_FromLong(e.in_backward)));
}

// (address, bytes, bytes of the block, stack, time in ns, in backward)
Ref converted(const std::pair<const void*, InUse>& block) {
  const auto& [data, use] = block;
  return Ref::checked(Py_BuildValue(
      "(NnniLN)", address_of(reinterpret_cast<uintptr_t>(data)), static_cast<Py_ssize_t>(use.bytes),
      static_cast<Py_ssize_t>(c10::held_bytes(use.bytes)), use.stack,
      static_cast<long long>(use.time), PyBool_FromLong(use.in_backward)));
}

// (address, bytes of the block, bytes of its tensor or 0, is large)
Ref converted(const c10::Segment& s) {
  return Ref::checked(Py_BuildValue(
      "(NnnN)", address_of(reinterpret_cast<uintptr_t>(s.data)), static_cast<Py_ssize_t>(s.bytes),
      static_cast<Py_ssize_t>(s.requested), PyBool_FromLong(s.is_large)));
}

// _memory_history_read(): (calls, rows, blocks in use, blocks of the allocator, rows lost). What is
// in use is read last, because other threads allocate meanwhile.
PyObject* read(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    const WithoutCollection all_alive;
    std::vector<c10::Segment> segments;
    c10::visit_segments(
        [](void* context, const c10::Segment& segment) {
          static_cast<std::vector<c10::Segment>*>(context)->push_back(segment);
        },
        &segments);
    const History::Copy copy = history().copy();
    history().add_snapshot();
    const auto convert = [](const auto& item) { return converted(item); };
    const Ref calls = list_of(copy.calls, convert), rows = list_of(copy.rows, convert),
              in_use = list_of(copy.in_use, convert), held = list_of(segments, convert);
    return Py_BuildValue("(OOOOn)", calls.get(), rows.get(), in_use.get(), held.get(),
                         static_cast<Py_ssize_t>(copy.lost));
  });
}

PyMethodDef functions[] = {{"_memory_history_start", start, METH_VARARGS, nullptr},
                           {"_memory_history_stop", stop, METH_NOARGS, nullptr},
                           {"_memory_history_clear", clear, METH_NOARGS, nullptr},
                           {"_memory_history_read", read, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void keep_stack_for_history() noexcept {
  if (!c10::note_action.load(std::memory_order_relaxed)) [[likely]]
    return;
  try {
    if (history().options().stacks) stack_on_leaving = stack_here();
  } catch (const std::bad_alloc&) {
    // Blocks of this operator will have no stack.
  }
}

void drop_stack_for_history() noexcept { stack_on_leaving = {}; }

void add_memory_history(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
