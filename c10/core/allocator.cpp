// The caching CPU allocator. Blocks up to 1 MB: thread-local size classes (small_blocks.h). Larger
// ones: mapped with 2 MB alignment and huge pages, kept in one list after use, oldest evicted first
// beyond the cap. glibc would unmap them at once, and faulting fresh pages costs more than most
// kernels.
#include "c10/core/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "c10/core/check.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/memory_note.h"
#include "c10/core/segments.h"
#include "c10/core/small_blocks.h"

namespace flambeau::c10 {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Rounds up to huge pages and to an eighth of an octave, so that similar sizes share blocks.
size_t large_bytes(size_t bytes) {
  const size_t octave = size_t{1} << (63 - __builtin_clzll(bytes));
  const size_t step = std::max(kHugePage, octave / 8);
  return (bytes + step - 1) / step * step;
}

// A quarter of the machine's memory, or FLAMBEAU_CPU_CACHE_BYTES.
size_t cache_cap() {
  if (const char* text = std::getenv("FLAMBEAU_CPU_CACHE_BYTES"))
    return std::strtoull(text, nullptr, 10);
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) /
         4;
}

void* map_huge(size_t bytes) {
  void* raw =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > start) munmap(raw, aligned - start);
  const size_t tail = start + kHugePage - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  void* block = reinterpret_cast<void*>(aligned);
#ifdef MADV_HUGEPAGE
  madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

void unmap(void* data, size_t bytes) noexcept {
  tell_action(MemoryAction::Return, data, bytes);
  munmap(data, bytes);
}

// Entries stay from the mapping of a block to its unmapping, so that reuse allocates nothing.
class LargeBlocks {
 public:
  // A kept block of that size, which is in use from now on; null when there is none.
  void* take(size_t bytes, size_t requested) {
    const std::lock_guard lock(mutex_);
    for (size_t i = kept_.size(); i-- > 0;) {  // the latest is the likeliest to be in the cache
      if (kept_[i]->bytes != bytes) continue;
      Block& block = *kept_[i];
      kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
      kept_bytes_ -= bytes;
      block.requested = requested;
      return block.data;
    }
    return nullptr;
  }

  // A new block; null when memory is short.
  void* map(size_t bytes, size_t requested) {
    void* data = map_huge(bytes);
    if (!data) return nullptr;
    try {
      const std::lock_guard lock(mutex_);
      kept_.reserve(blocks_.size() + 1);  // `keep` must not fail
      blocks_.try_emplace(data, Block{data, bytes, requested});
    } catch (const std::bad_alloc&) {
      munmap(data, bytes);
      return nullptr;
    }
    tell_action(MemoryAction::Obtain, data, bytes);
    return data;
  }

  void keep(void* data, size_t bytes) noexcept {
    static const size_t cap = cache_cap();
    if (bytes > cap) {
      forget(data);
      unmap(data, bytes);
      return;
    }
    while (const std::optional<Block> oldest = keep_within(cap, data, bytes))
      unmap(oldest->data, oldest->bytes);
  }

  void clear() {
    while (const std::optional<Block> oldest = oldest_kept()) unmap(oldest->data, oldest->bytes);
  }

  size_t kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

  void visit(void (*visit)(void* context, const Segment& segment), void* context) {
    const std::lock_guard lock(mutex_);
    for (const auto& [data, block] : blocks_)
      visit(context, {data, block.bytes, block.requested, true});
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
    size_t requested;  // 0: kept
  };

  void forget(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    blocks_.erase(data);
  }

  // The functions below may return a block that is no longer in the lists. It is unmapped without
  // the lock, because `note_action` takes locks of its own.

  // Keeps a block if the sum stays within `cap`, otherwise takes out the oldest one.
  std::optional<Block> keep_within(size_t cap, void* data, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes > cap) return take_oldest();
    Block& block = blocks_.find(data)->second;
    block.requested = 0;
    kept_.push_back(&block);
    kept_bytes_ += bytes;
    return std::nullopt;
  }

  std::optional<Block> oldest_kept() noexcept {
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) return std::nullopt;
    return take_oldest();
  }

  Block take_oldest() noexcept {
    const Block oldest = *kept_.front();
    kept_.erase(kept_.begin());
    kept_bytes_ -= oldest.bytes;
    blocks_.erase(oldest.data);
    return oldest;
  }

  ForkMutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  std::vector<Block*> kept_;  // the oldest first
  size_t kept_bytes_ = 0;
};

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (is_large(bytes)) return allocate_large(bytes);
    small_blocks::ThreadLists* lists = small_blocks::thread_lists;
    const bool hit = small_blocks::kReuse && lists && lists->head[small_blocks::class_of(bytes)];
    void* data = small_blocks::allocate(bytes);
    count(static_cast<int64_t>(bytes), hit);
    tell_memory(MemoryAction::Allocate, data, bytes);
    return data;
  }

  void deallocate(void* data, size_t bytes) noexcept override {
    if (!data) return;
    tell_memory(MemoryAction::Release, data, bytes);
    if (is_large(bytes)) {
      large_.keep(data, large_bytes(bytes));
    } else {
      small_blocks::deallocate(data, bytes);
    }
    publish(-static_cast<int64_t>(bytes));
  }

  AllocatorStats stats() const override {
    AllocatorStats s;
    small_blocks::for_each_thread(
        [](void* context, const small_blocks::ThreadLists& lists) {
          AllocatorStats& sum = *static_cast<AllocatorStats*>(context);
          sum.allocated_bytes += lists.unpublished_bytes.load(std::memory_order_relaxed);
          sum.allocations += lists.allocations.load(std::memory_order_relaxed);
          sum.cache_hits += lists.cache_hits.load(std::memory_order_relaxed);
        },
        &s);
    s.allocated_bytes += published_.load(std::memory_order_relaxed);
    s.peak_allocated_bytes = std::max(peak_.load(std::memory_order_relaxed), s.allocated_bytes);
    s.cached_bytes = small_blocks::cached_bytes() + static_cast<int64_t>(large_.kept_bytes());
    return s;
  }

  void reset_peak() override { peak_.store(stats().allocated_bytes, std::memory_order_relaxed); }

  void empty_cache() override {
    small_blocks::release_cached();
    large_.clear();
  }

  void visit_large(void (*visit)(void* context, const Segment& segment), void* context) {
    large_.visit(visit, context);
  }

  static size_t held_bytes(size_t bytes) {
    if (!small_blocks::kReuse) return bytes;
    return is_large(bytes) ? large_bytes(bytes)
                           : small_blocks::class_bytes(small_blocks::class_of(bytes));
  }

 private:
  // What is mapped is not watched by AddressSanitizer, nor held to its limits.
  static bool is_large(size_t bytes) {
    return small_blocks::kReuse && bytes > small_blocks::kMaxSmallBytes;
  }

  void* allocate_large(size_t bytes) {
    check_size(bytes);
    const size_t rounded = large_bytes(bytes);
    void* data = large_.take(rounded, bytes);
    const bool hit = data != nullptr;
    if (!data) data = large_.map(rounded, bytes);
    if (!data) {
      empty_cache();
      data = large_.map(rounded, bytes);
    }
    if (!data) small_blocks::fail_memory(bytes);
    count(static_cast<int64_t>(bytes), hit);
    tell_memory(MemoryAction::Allocate, data, bytes);
    return data;
  }

  static void check_size(size_t bytes) {
    if (bytes > (size_t{1} << 62)) small_blocks::fail_memory(bytes);
  }

  void count(int64_t bytes, bool hit) {
    if (small_blocks::ThreadLists* lists = small_blocks::thread_lists) {
      small_blocks::add_owned(lists->allocations, 1);
      if (hit) small_blocks::add_owned(lists->cache_hits, 1);
    }
    publish(bytes);
  }

  // Threads gather small changes and publish them from 256 KB on: the peak is exact to that much.
  void publish(int64_t bytes) noexcept {
    small_blocks::ThreadLists* lists = small_blocks::thread_lists;
    int64_t change = bytes;
    if (lists) {
      change += lists->unpublished_bytes.load(std::memory_order_relaxed);
      const bool small = change < kPublishBytes && change > -kPublishBytes;
      lists->unpublished_bytes.store(small ? change : 0, std::memory_order_relaxed);
      if (small) return;
    }
    const int64_t now = published_.fetch_add(change, std::memory_order_relaxed) + change;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  static constexpr int64_t kPublishBytes = 256 << 10;
  mutable LargeBlocks large_;
  std::atomic<int64_t> published_{0};
  std::atomic<int64_t> peak_{0};
};

std::atomic<Allocator*> registered[kNumDeviceTypes];

}  // namespace

void (*note_memory)(const void* block, int64_t bytes) noexcept = nullptr;
std::atomic<void (*)(MemoryAction action, const void* block, size_t bytes) noexcept> note_action{
    nullptr};

namespace {
CpuAllocator& the_allocator() {
  static CpuAllocator* const instance = new CpuAllocator;
  return *instance;
}
}  // namespace

Allocator* cpu_allocator() { return &the_allocator(); }

void visit_segments(void (*visit)(void* context, const Segment& segment), void* context) {
  small_blocks::visit_kept(visit, context);
  the_allocator().visit_large(visit, context);
}

size_t held_bytes(size_t bytes) { return CpuAllocator::held_bytes(bytes); }

Allocator* allocator_of(DeviceType t) {
  Allocator* a = registered[static_cast<int>(t)].load(std::memory_order_acquire);
  if (a) [[likely]]
    return a;
  if (t != DeviceType::CPU) fail_no_backend(t, ErrorKind::Runtime);
  set_allocator(t, cpu_allocator());
  return cpu_allocator();
}

bool has_allocator(DeviceType t) {
  return t == DeviceType::CPU || registered[static_cast<int>(t)].load(std::memory_order_acquire);
}

void set_allocator(DeviceType t, Allocator* allocator) {
  registered[static_cast<int>(t)].store(allocator, std::memory_order_release);
}

}  // namespace flambeau::c10
