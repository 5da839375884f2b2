// The caching allocator: alignment, reuse, statistics, threads that give back one another's blocks.
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "c10/core/allocator.h"
#include "c10/core/memory_note.h"
#include "c10/core/segments.h"
#include "c10/core/small_blocks.h"
#include "harness.h"

using namespace flambeau;

TEST(allocator_classes_cover_sizes) {
  using namespace small_blocks;
  for (size_t bytes = 1; bytes <= kMaxSmallBytes; bytes += bytes / 37 + 1) {
    const int index = class_of(bytes);
    EXPECT(class_bytes(index) >= bytes && (index == 0 || class_bytes(index - 1) < bytes));
  }
  EXPECT(class_of(kMaxSmallBytes) == kNumClasses - 1);
}

// With malloc's header a small block takes whole lines, not a line more.
TEST(allocator_leaves_room_for_the_header_in_small_classes) {
  using namespace small_blocks;
  for (int index = 0; index < 16; ++index)
    EXPECT_EQ(class_bytes(index) + kHeaderBytes, size_t{64} * static_cast<size_t>(index + 1));
  for (const size_t bytes : {size_t{1008}, size_t{1009}, size_t{1024}, size_t{1025}}) {
    const size_t held = class_bytes(class_of(bytes));
    EXPECT_EQ(held, size_t{bytes == 1008 ? 1008u : 1280u});
  }
}

TEST(allocator_aligns_and_counts) {
  Allocator* a = cpu_allocator();
  const AllocatorStats before = a->stats();
  std::vector<std::pair<void*, size_t>> blocks;
  int64_t total = 0;
  for (const size_t bytes :
       {size_t{1}, size_t{100}, size_t{5000}, size_t{1} << 20, size_t{5} << 20}) {
    void* p = a->allocate(bytes);
    EXPECT(reinterpret_cast<uintptr_t>(p) % 64 == 0);
    std::memset(p, 1, bytes);
    blocks.emplace_back(p, bytes);
    total += static_cast<int64_t>(bytes);
  }
  const auto largest = reinterpret_cast<uintptr_t>(blocks.back().first);
  EXPECT(!small_blocks::kReuse || largest % (2 << 20) == 0);
  EXPECT_EQ(a->stats().allocated_bytes - before.allocated_bytes, total);
  EXPECT(a->stats().peak_allocated_bytes >= a->stats().allocated_bytes);
  for (const auto& [p, bytes] : blocks) a->deallocate(p, bytes);
  EXPECT_EQ(a->stats().allocated_bytes, before.allocated_bytes);
  EXPECT(a->allocate(0) == nullptr);
}

TEST(allocator_reuses_and_empties) {
  if (!small_blocks::kReuse) return;  // AddressSanitizer builds hand every block back
  Allocator* a = cpu_allocator();
  void* large = a->allocate(10 << 20);
  a->deallocate(large, 10 << 20);
  EXPECT(a->stats().cached_bytes >= 10 << 20);
  const int64_t hits = a->stats().cache_hits;
  void* again = a->allocate((10 << 20) - 5);
  EXPECT(again == large);
  EXPECT_EQ(a->stats().cache_hits, hits + 1);
  a->deallocate(again, (10 << 20) - 5);
  a->empty_cache();
  EXPECT_EQ(a->stats().cached_bytes, int64_t{0});
}

TEST(allocator_refuses_the_impossible) {
  EXPECT(testing::throws(ErrorKind::OutOfMemory,
                         "can't allocate memory of 1152921504606846976 bytes",
                         [] { cpu_allocator()->allocate(size_t{1} << 60); }));
}

TEST(allocator_blocks_cross_threads) {
  Allocator* a = cpu_allocator();
  const int64_t before = a->stats().allocated_bytes;
  constexpr int kSlots = 64;
  std::atomic<void*> slots[kSlots] = {};
  const auto work = [&](unsigned seed) {
    for (int i = 0; i < 20000; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const size_t slot = seed >> 26;
      const size_t bytes = slot % 8 == 0 ? size_t{3} << 20 : (slot + 1) * 50;
      void* mine = a->allocate(bytes);
      *static_cast<unsigned*>(mine) = seed;
      if (void* other = slots[slot].exchange(mine)) a->deallocate(other, bytes);
      if (i % 4096 == 0) (void)a->stats();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const size_t bytes = slot % 8 == 0 ? size_t{3} << 20 : (slot + 1) * 50;
    a->deallocate(slots[slot].load(), bytes);
  }
  EXPECT_EQ(a->stats().allocated_bytes, before);
}

namespace {

using c10::MemoryAction;

// What a block went through, while `note` is set.
struct Told {
  MemoryAction action;
  const void* block;
  size_t bytes;
};
std::mutex told_mutex;
std::vector<Told> told;

void note(MemoryAction action, const void* block, size_t bytes) noexcept {
  const std::lock_guard lock(told_mutex);
  told.push_back({action, block, bytes});
}

std::vector<MemoryAction> actions_of(const void* block) {
  std::vector<MemoryAction> found;
  for (const Told& t : told) {
    if (t.block == block) found.push_back(t.action);
  }
  return found;
}

std::vector<c10::Segment> segments() {
  std::vector<c10::Segment> found;
  c10::visit_segments(
      [](void* context, const c10::Segment& s) {
        static_cast<std::vector<c10::Segment>*>(context)->push_back(s);
      },
      &found);
  return found;
}

// The bytes that its tensor asked for; -1: the block is not listed.
int64_t requested_of(const void* block) {
  for (const c10::Segment& s : segments()) {
    if (s.data == block) return static_cast<int64_t>(s.requested);
  }
  return -1;
}

}  // namespace

TEST(allocator_lists_large_blocks_and_kept_ones) {
  if (!small_blocks::kReuse) return;
  Allocator* a = cpu_allocator();
  void* large = a->allocate(10 << 20);
  void* small = a->allocate(777);
  EXPECT_EQ(requested_of(large), int64_t{10 << 20});
  EXPECT_EQ(requested_of(small), int64_t{-1});
  a->deallocate(large, 10 << 20);
  a->deallocate(small, 777);
  EXPECT_EQ(requested_of(large), int64_t{0});
  EXPECT_EQ(requested_of(small), int64_t{0});
  EXPECT_EQ(c10::held_bytes(777), size_t{816});
  EXPECT_EQ(c10::held_bytes((10 << 20) - 5), size_t{10 << 20});
  a->empty_cache();
  EXPECT_EQ(requested_of(large), int64_t{-1});
  EXPECT_EQ(requested_of(small), int64_t{-1});
}

TEST(allocator_tells_what_it_does) {
  if (!small_blocks::kReuse) return;
  Allocator* a = cpu_allocator();
  a->empty_cache();
  told.clear();
  c10::note_action = note;
  void* large = a->allocate(9 << 20);
  void* small = a->allocate(50000);
  a->deallocate(large, 9 << 20);
  a->deallocate(small, 50000);
  EXPECT(a->allocate(9 << 20) == large);
  a->deallocate(large, 9 << 20);
  a->empty_cache();
  EXPECT(testing::throws(ErrorKind::OutOfMemory, "can't allocate",
                         [] { cpu_allocator()->allocate(size_t{1} << 60); }));
  c10::note_action = nullptr;
  using enum MemoryAction;
  EXPECT((actions_of(large) == std::vector{Obtain, Allocate, Release, Allocate, Release, Return}));
  EXPECT((actions_of(small) == std::vector{Obtain, Allocate, Release, Return}));
  EXPECT(told.back().action == Fail && told.back().bytes == size_t{1} << 60);
  a->deallocate(a->allocate(9 << 20), 9 << 20);
  EXPECT(told.back().action == Fail);  // nothing is told any more
}

// Each block is told by one thread at a time, in its order, while the cache is emptied and listed.
TEST(allocator_tells_threads_in_the_order_of_blocks) {
  if (!small_blocks::kReuse) return;
  Allocator* a = cpu_allocator();
  told.clear();
  c10::note_action = note;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([a] {
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = i % 50 == 0 ? size_t{3} << 20 : size_t{70000};
        a->deallocate(a->allocate(bytes), bytes);
        if (i % 500 == 0) a->empty_cache();
        if (i % 700 == 0) (void)segments();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  c10::note_action = nullptr;
  std::unordered_map<const void*, bool> in_use;
  for (const Told& t : told) {
    if (t.action == MemoryAction::Allocate) EXPECT(!std::exchange(in_use[t.block], true));
    if (t.action == MemoryAction::Release) EXPECT(std::exchange(in_use[t.block], false));
    if (t.action == MemoryAction::Return) EXPECT(!in_use[t.block]);
  }
}
