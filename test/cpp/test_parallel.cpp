// parallel_for: how many parts a range has, and that they cover it.
#include <atomic>

#include "aten/cpu/parallel.h"
#include "harness.h"

using namespace flambeau;

namespace {

struct Parts {
  int64_t indices;
  int count;
};
Parts parts_of(int64_t n, int64_t cost) {
  std::atomic<int64_t> indices{0};
  std::atomic<int> count{0};
  parallel_for(0, n, cost, [&](int64_t begin, int64_t end) {
    indices += end - begin;
    ++count;
  });
  return {indices, count};
}

}  // namespace

TEST(parallel_for_splits_from_twice_the_serial_cost_on) {
  const int before = get_num_threads();
  set_num_threads(2);
#ifdef __SANITIZE_THREAD__
  constexpr bool kHasThreads = false;  // loops run in their caller, in pieces of any number
#else
  constexpr bool kHasThreads = true;
#endif
  for (const int64_t cost : {int64_t{1}, int64_t{128}, kSerialCost, 3 * kSerialCost}) {
    const int64_t n = std::max<int64_t>(2 * kSerialCost / cost, 2);
    const Parts exact = parts_of(n, cost), less = parts_of(n - 1, cost);
    EXPECT(exact.indices == n && less.indices == n - 1);
    EXPECT(!kHasThreads || (exact.count == 2 && less.count == 1));
  }
  EXPECT(parts_of(0, 5).count == 0 && parts_of(7, 0).count == 1);
  set_num_threads(before);
}
