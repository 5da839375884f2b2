#include "aten/cpu/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "aten/cpu/thread_number.h"
#include "c10/core/check.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/interrupt.h"
#include "c10/core/thread_state.h"

#if __has_include(<cblas.h>)
#include <cblas.h>
#endif

namespace flambeau {
namespace {

std::atomic<int> wanted_threads{0};

// GNU OpenMP's barriers are invisible to ThreadSanitizer: under it, loops run in their caller.
#ifdef __SANITIZE_THREAD__
constexpr bool kSerial = true;
#else
constexpr bool kSerial = false;
#endif

// In a process that was forked inside of a parallel region every region runs in its caller.
bool pool_is_lost = false;

#if __has_include(<cblas.h>)
// OpenBLAS brings a thread pool that would fight OpenMP's for the cores: it gets our threads
// instead.
void run_blas_jobs(int, openblas_dojob_callback job, int count, size_t stride, void* data,
                   int argument) {
  const auto run = [=](int i) {
    job(i, static_cast<char*>(data) + stride * static_cast<size_t>(i), argument);
  };
  if (!omp_in_parallel() && !pool_is_lost) {
// The jobs wait for each other: each has a thread of its own, also where the team is smaller than
// was asked for.
#pragma omp parallel num_threads(count)
    {
      const int team = omp_get_num_threads();
      const int first = omp_get_thread_num();
      std::vector<std::jthread> others;
      for (int i = first + team; i < count; i += team) others.emplace_back(run, i);
      run(first);
    }
    return;
  }
  // The jobs wait for each other, and a nested region has one thread: see SerialBlas.
  std::vector<std::jthread> others;
  for (int i = 1; i < count; ++i) others.emplace_back(run, i);
  run(0);
}

[[maybe_unused]] const bool blas_threads_set = [] {
  scipy_openblas_set_threads_callback_function(run_blas_jobs);
  return true;
}();

void set_blas_threads(int n) { scipy_openblas_set_num_threads(n); }
#else
void set_blas_threads(int) {}
#endif

ForkMutex serial_blas_mutex;
int serial_blas_users = 0;

// --- fork ----------------------------------------------------------------------------------------

// Threads do not survive a fork, and GNU OpenMP's next region in the child would wait for those of
// its pool for ever. So the pool of the thread that forks is dissolved before; parent and child
// each start a new one when they need it. Only inside of a region that is impossible.
bool pool_is_busy = false;

void before_fork() {
  pool_is_busy = omp_in_parallel() != 0 || omp_pause_resource_all(omp_pause_soft) != 0;
}
void after_fork_in_child() {
  if (!pool_is_busy) return;
  pool_is_lost = true;
  omp_set_num_threads(1);  // for the libraries
}

// The pool's threads take fork mutexes when they end. A fork runs what was registered last first,
// and serial_blas_mutex has registered the taking of those mutexes above.
[[maybe_unused]] const bool fork_is_watched = [] {
  pthread_atfork(before_fork, nullptr, after_fork_in_child);
  return true;
}();

// --- pieces --------------------------------------------------------------------------------------

struct Work {
  void (*run)(void* context, int64_t begin, int64_t end);
  void* context;
  int64_t grain;
};

// The cost of an index is a guess, so time decides how long a piece is. Where an index may be an
// element, lengths are multiples of any vector's, so that no element is computed otherwise than
// without pieces.
constexpr int64_t kFirstPiece = 64;  // grains: a millisecond or two of the cheapest operators
constexpr int64_t kShortPiece = 8'000'000, kLongPiece = 64'000'000;  // ns

void run_in_pieces(const Work& work, int64_t begin, int64_t end) {
  check_interrupt();
  const int64_t unit = work.grain > 1 ? kFirstPiece : 1;
  int64_t piece = std::min(work.grain, end - begin) * unit;
  while (end - begin > piece) {
    const int64_t start = coarse_time();
    work.run(work.context, begin, begin + piece);
    begin += piece;
    check_interrupt();
    const int64_t spent = coarse_time() - start;
    if (spent < kShortPiece && piece < end - begin) piece *= 2;
    if (spent > kLongPiece) piece = std::max<int64_t>(piece / (2 * unit), 1) * unit;
  }
  work.run(work.context, begin, end);
}

}  // namespace

SerialBlas::SerialBlas() {
  const std::lock_guard lock(serial_blas_mutex);
  if (serial_blas_users++ == 0) set_blas_threads(1);
}
SerialBlas::~SerialBlas() {
  const std::lock_guard lock(serial_blas_mutex);
  if (--serial_blas_users == 0) set_blas_threads(get_num_threads());
}

int get_num_threads() {
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  return wanted ? wanted : omp_get_max_threads();
}

void set_num_threads(int n) {
  check(n > 0, "set_num_threads: expected a positive integer, got ", n);
  wanted_threads.store(n, std::memory_order_relaxed);
  omp_set_num_threads(n);
  const std::lock_guard lock(serial_blas_mutex);
  if (serial_blas_users == 0) set_blas_threads(n);
}

bool in_parallel_region() { return omp_in_parallel() != 0; }
int thread_number() { return omp_get_thread_num(); }

int parts_worthwhile(int64_t total_cost) {
  if (total_cost < 2 * kSerialCost || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<int64_t>(get_num_threads(), total_cost / kSerialCost));
}

void parallel_ranges(int64_t begin, int64_t end, int64_t grain,
                     void (*run)(void* context, int64_t begin, int64_t end), void* context) {
  const int64_t total = end - begin;
  const int64_t parts = std::min<int64_t>(get_num_threads(), total / std::max<int64_t>(grain, 1));
  const Work work{run, context, std::max<int64_t>(grain, 1)};
  if (kSerial || parts <= 1 || omp_in_parallel() || pool_is_lost) {
    run_in_pieces(work, begin, end);
    return;
  }
  std::exception_ptr error;
  std::atomic<bool> stop{false};
  const ThreadState caller = thread_state;
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const ThreadState own = std::exchange(thread_state, caller);
    const std::atomic<bool>* const outer = std::exchange(stop_flag, &stop);
    try {
      run_in_pieces(work, begin + total * part / parts, begin + total * (part + 1) / parts);
    } catch (...) {
      if (!stop.exchange(true)) error = std::current_exception();
    }
    stop_flag = outer;
    thread_state = own;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace flambeau
