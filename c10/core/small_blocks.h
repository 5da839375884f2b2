#pragma once
// Blocks up to kMaxSmallBytes from free lists of the calling thread, by size class. A block may be
// given back by any thread. Used for tensor data, TensorImpl and StorageImpl alike.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "c10/core/namespace.h"

namespace flambeau::c10::small_blocks {

// Classes are multiples of 64 bytes up to 1 KB, then four steps an octave. The former leave room
// for malloc's header, without which each block would take a line more.
inline constexpr size_t kMaxSmallBytes = size_t{1} << 20;
inline constexpr size_t kHeaderBytes = 16;
inline constexpr int kNumClasses = 16 + 4 * 10;

struct FreeBlock {
  FreeBlock* next;
};

// One thread's lists. Only the owner writes; the counters are read by statistics of other threads.
struct ThreadLists {
  FreeBlock* head[kNumClasses] = {};
  uint32_t count[kNumClasses] = {};
  std::atomic<int64_t> unpublished_bytes{0};  // handed out minus given back, not yet in the total
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> cache_hits{0};
};
// A counter with one writer needs no locked instruction.
inline void add_owned(std::atomic<int64_t>& counter, int64_t n) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Null until a thread's first slow call, and again when the thread is ending.
extern thread_local constinit ThreadLists* thread_lists __attribute__((tls_model("initial-exec")));

constexpr int class_of(size_t bytes) {
  if (bytes <= 1024 - kHeaderBytes) return static_cast<int>((bytes + kHeaderBytes + 63) / 64) - 1;
  if (bytes <= 1024) return 16;
  const int octave = 63 - __builtin_clzll(bytes - 1);  // bytes in (2^octave, 2^(octave+1)]
  const int step = static_cast<int>((bytes - 1) >> (octave - 2)) & 3;
  return 16 + (octave - 10) * 4 + step;
}
constexpr size_t class_bytes(int index) {
  if (index < 16) return static_cast<size_t>(index + 1) * 64 - kHeaderBytes;
  const int octave = 10 + (index - 16) / 4;
  return (size_t{1} << octave) +
         static_cast<size_t>((index - 16) % 4 + 1) * (size_t{1} << (octave - 2));
}
// Blocks of a class that one thread keeps: few of the big ones.
constexpr uint32_t class_limit(int index) {
  const size_t by_bytes = (size_t{1} << 21) / class_bytes(index);
  return static_cast<uint32_t>(by_bytes < 4 ? 4 : by_bytes > 1024 ? 1024 : by_bytes);
}

// AddressSanitizer sees each block's life and its end only if none is reused or rounded up.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kReuse = false;
#else
inline constexpr bool kReuse = true;
#endif

ThreadLists* start_thread_lists();  // null while the thread is ending
void* allocate_slow(int index);
void* allocate_exact(size_t bytes);  // past the lists; of any size
void deallocate_slow(void* block, int index) noexcept;
// Gives the blocks of this thread and the shared ones back to the system.
void release_cached();
int64_t cached_bytes();
// fn(context, lists) for each living thread and for the sums of the ended ones.
void for_each_thread(void (*fn)(void* context, const ThreadLists& lists), void* context);

// Throws Error(OutOfMemory) with the words that programs look for before they try less.
[[noreturn]] void fail_memory(size_t bytes);

// 64-byte aligned; throws Error(OutOfMemory). `bytes` in [1, kMaxSmallBytes].
inline void* allocate(size_t bytes) {
  if constexpr (!kReuse) return allocate_exact(bytes);
  const int index = class_of(bytes);
  ThreadLists* lists = thread_lists;
  if (lists && lists->head[index]) [[likely]] {
    FreeBlock* block = lists->head[index];
    lists->head[index] = block->next;
    --lists->count[index];
    return block;
  }
  return allocate_slow(index);
}

inline void deallocate(void* p, size_t bytes) noexcept {
  if constexpr (!kReuse) return std::free(p);
  const int index = class_of(bytes);
  ThreadLists* lists = thread_lists;
  if (lists && lists->count[index] < class_limit(index)) [[likely]] {
    FreeBlock* block = static_cast<FreeBlock*>(p);
    block->next = lists->head[index];
    lists->head[index] = block;
    ++lists->count[index];
    return;
  }
  deallocate_slow(p, index);
}

}  // namespace flambeau::c10::small_blocks
