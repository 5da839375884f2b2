// The caching allocator: alignment, reuse, statistics, threads that give back one another's blocks.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "c10/core/allocator.h"
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
