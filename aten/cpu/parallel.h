#pragma once
// Loops over index ranges on OpenMP's threads. Small regions and nested ones run in the caller.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "c10/core/namespace.h"

namespace flambeau {

int get_num_threads();
void set_num_threads(int n);  // RuntimeError unless n > 0
bool in_parallel_region();

// A region of less cost (in elements of four bytes: 256 KB of traffic) is faster without threads.
inline constexpr int64_t kSerialCost = 65536;

// Calls run(context, begin, end) on disjoint parts, each of at least `grain` indices. The first
// exception of any part is rethrown in the caller.
void parallel_ranges(int64_t begin, int64_t end, int64_t grain,
                     void (*run)(void* context, int64_t begin, int64_t end), void* context);

// body(begin, end) on disjoint parts of [begin, end). `cost`: elements touched per index; scale it
// up where an element costs much more than a load and a store.
template <typename Body>
void parallel_for(int64_t begin, int64_t end, int64_t cost, const Body& body) {
  if (begin >= end) return;
  // Rounded down, so that a range of twice the cost has two parts; a longer index is a part itself.
  const int64_t grain = std::max<int64_t>(kSerialCost / std::max<int64_t>(cost, 1), 1);
  if (end - begin <= grain) {
    body(begin, end);
    return;
  }
  parallel_ranges(
      begin, end, grain,
      [](void* context, int64_t b, int64_t e) { (*static_cast<const Body*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// While one exists, OpenBLAS computes in its caller. Inside a parallel region it must: the parts of
// its products wait for each other, and there they would run one after the other.
class SerialBlas {
 public:
  SerialBlas();
  ~SerialBlas();
  SerialBlas(const SerialBlas&) = delete;
  SerialBlas& operator=(const SerialBlas&) = delete;
};

// Number of parts that a region of this total cost is worth.
int parts_worthwhile(int64_t total_cost);

}  // namespace flambeau
