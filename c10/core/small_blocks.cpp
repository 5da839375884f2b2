#include "c10/core/small_blocks.h"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "c10/core/check.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/memory_note.h"
#include "c10/core/segments.h"

namespace flambeau::c10::small_blocks {

thread_local constinit ThreadLists* thread_lists = nullptr;

namespace {

// Blocks that no thread holds, and the threads alive. Never destroyed: threads may outlive main.
struct Shared {
  ForkMutex mutex;
  FreeBlock* head[kNumClasses] = {};
  uint32_t count[kNumClasses] = {};
  std::vector<ThreadLists*> threads;
  ThreadLists ended;
};
Shared& shared() {
  static Shared* const instance = new Shared;
  return *instance;
}

// The shared lists take this many times what one thread may keep.
constexpr uint32_t kSharedLimit = 4;

void push(FreeBlock*& head, uint32_t& count, void* p) {
  FreeBlock* block = static_cast<FreeBlock*>(p);
  block->next = head;
  head = block;
  ++count;
}

void* pop(FreeBlock*& head, uint32_t& count) {
  FreeBlock* block = head;
  head = block->next;
  --count;
  return block;
}

// Unlike aligned_alloc, it takes sizes that are not multiples of the alignment. Null: no memory.
void* aligned_block(size_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, 64, bytes) == 0 ? p : nullptr;
}

void* system_allocate(int index) {
  void* p = aligned_block(class_bytes(index));
  if (!p) {
    release_cached();
    p = aligned_block(class_bytes(index));
  }
  if (!p) fail_memory(class_bytes(index));
  tell_action(MemoryAction::Obtain, p, class_bytes(index));
  return p;
}

void system_free(void* p, int index) noexcept {
  tell_action(MemoryAction::Return, p, class_bytes(index));
  std::free(p);
}

// Blocks on their way to the system. They are freed when no lock is held, because `note_action`
// takes locks of its own.
class Leaving {
 public:
  Leaving() = default;
  ~Leaving() {
    for (int i = 0; i < kNumClasses; ++i) {
      while (head_[i]) system_free(pop(head_[i], count_[i]), i);
    }
  }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  void add(void* p, int index) { push(head_[index], count_[index], p); }

 private:
  FreeBlock* head_[kNumClasses] = {};
  uint32_t count_[kNumClasses] = {};
};

// Moves all of a thread's blocks to the shared lists, or to the system where those are full.
void surrender(ThreadLists& lists, Shared& s, Leaving& leaving) {
  for (int i = 0; i < kNumClasses; ++i) {
    while (lists.head[i]) {
      void* p = pop(lists.head[i], lists.count[i]);
      if (s.count[i] < kSharedLimit * class_limit(i)) {
        push(s.head[i], s.count[i], p);
      } else {
        leaving.add(p, i);
      }
    }
  }
}

// Remains readable after ThreadEnd is destroyed, so that nothing restarts the lists.
thread_local constinit bool thread_ended = false;

struct ThreadEnd {
  ThreadLists lists;
  ThreadEnd() {
    Shared& s = shared();
    const std::lock_guard lock(s.mutex);
    s.threads.push_back(&lists);
  }
  ~ThreadEnd() {
    thread_lists = nullptr;
    thread_ended = true;
    Leaving leaving;
    Shared& s = shared();
    const std::lock_guard lock(s.mutex);
    surrender(lists, s, leaving);
    std::erase(s.threads, &lists);
    add_owned(s.ended.unpublished_bytes, lists.unpublished_bytes.load(std::memory_order_relaxed));
    add_owned(s.ended.allocations, lists.allocations.load(std::memory_order_relaxed));
    add_owned(s.ended.cache_hits, lists.cache_hits.load(std::memory_order_relaxed));
  }
};
}  // namespace

void fail_memory(size_t bytes) {
  tell_action(MemoryAction::Fail, nullptr, bytes);
  fail(ErrorKind::OutOfMemory, "out of memory: DefaultCPUAllocator: can't allocate memory of ",
       bytes, " bytes");
}

ThreadLists* start_thread_lists() {
  if (thread_ended) return nullptr;
  thread_local ThreadEnd end;
  thread_lists = &end.lists;
  return thread_lists;
}

void* allocate_slow(int index) {
  if (!thread_lists) start_thread_lists();
  Shared& s = shared();
  {
    const std::lock_guard lock(s.mutex);
    if (s.head[index]) return pop(s.head[index], s.count[index]);
  }
  return system_allocate(index);
}

void* allocate_exact(size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, bytes)) fail_memory(bytes);
  return p;
}

void deallocate_slow(void* block, int index) noexcept {
  if (!thread_lists && start_thread_lists()) {
    push(thread_lists->head[index], thread_lists->count[index], block);
    return;
  }
  Shared& s = shared();
  {
    const std::lock_guard lock(s.mutex);
    if (s.count[index] < kSharedLimit * class_limit(index)) {
      push(s.head[index], s.count[index], block);
      return;
    }
  }
  system_free(block, index);
}

void release_cached() {
  ThreadLists* own = thread_lists;
  Leaving leaving;
  Shared& s = shared();
  const std::lock_guard lock(s.mutex);
  for (int i = 0; i < kNumClasses; ++i) {
    while (own && own->head[i]) leaving.add(pop(own->head[i], own->count[i]), i);
    while (s.head[i]) leaving.add(pop(s.head[i], s.count[i]), i);
  }
}

void visit_kept(void (*visit)(void* context, const Segment& segment), void* context) {
  const ThreadLists* own = thread_lists;
  Shared& s = shared();
  const std::lock_guard lock(s.mutex);
  const auto visit_list = [&](const FreeBlock* head, int i) {
    for (; head; head = head->next) visit(context, {head, class_bytes(i), 0, false});
  };
  for (int i = 0; i < kNumClasses; ++i) {
    if (own) visit_list(own->head[i], i);
    visit_list(s.head[i], i);
  }
}

int64_t cached_bytes() {
  ThreadLists* own = thread_lists;
  Shared& s = shared();
  const std::lock_guard lock(s.mutex);
  int64_t total = 0;
  for (int i = 0; i < kNumClasses; ++i) {
    const int64_t blocks = int64_t{s.count[i]} + (own ? own->count[i] : 0);
    total += blocks * static_cast<int64_t>(class_bytes(i));
  }
  return total;
}

void for_each_thread(void (*fn)(void* context, const ThreadLists& lists), void* context) {
  Shared& s = shared();
  const std::lock_guard lock(s.mutex);
  fn(context, s.ended);
  for (const ThreadLists* lists : s.threads) fn(context, *lists);
}

}  // namespace flambeau::c10::small_blocks
