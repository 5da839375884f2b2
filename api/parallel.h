#pragma once
// Parallel loops and reductions over ranges of indices.
#include <algorithm>
#include <memory>
#include <mutex>

#include "aten/cpu/parallel.h"
#include "aten/cpu/thread_number.h"
#include "c10/core/check.h"

namespace flambeau::api {

using flambeau::get_num_threads;
using flambeau::in_parallel_region;
using flambeau::set_num_threads;

// Threads are started when they are needed.
inline void init_num_threads() {}
// The number of the calling thread in its loop, from 0; 0 outside of one.
inline int get_thread_num() { return thread_number(); }

// f(begin, end) on disjoint parts of [begin, end), each of at least `grain_size` indices but the
// last.
template <typename F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  check(grain_size >= 0, "parallel_for: expected a grain size of 0 or more, got ", grain_size);
  if (begin >= end) return;
  if (end - begin <= grain_size || in_parallel_region()) {
    f(begin, end);
    return;
  }
  parallel_ranges(
      begin, end, std::max<int64_t>(grain_size, 1),
      [](void* context, int64_t b, int64_t e) { (*static_cast<const F*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// combine(combine(ident, f(part 1, ident)), f(part 2, ident)) ..., in any order of the parts: only
// an exact `combine` gives the same result in every run.
template <typename T, typename F, typename Combine>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain_size, T ident, const F& f,
                  const Combine& combine) {
  T total = ident;
  std::mutex mutex;
  parallel_for(begin, end, grain_size, [&](int64_t b, int64_t e) {
    const T part = f(b, e, ident);
    const std::lock_guard lock(mutex);
    total = combine(total, part);
  });
  return total;
}

}  // namespace flambeau::api
