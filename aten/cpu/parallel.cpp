#include "aten/cpu/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "c10/core/check.h"
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

#if __has_include(<cblas.h>)
// OpenBLAS brings a thread pool that would fight OpenMP's for the cores: it gets our threads
// instead.
void run_blas_jobs(int, openblas_dojob_callback job, int count, size_t stride, void* data,
                   int argument) {
  const auto run = [=](int i) {
    job(i, static_cast<char*>(data) + stride * static_cast<size_t>(i), argument);
  };
  if (!omp_in_parallel()) {
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < count; ++i) run(i);
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

std::mutex serial_blas_mutex;
int serial_blas_users = 0;

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

int parts_worthwhile(int64_t total_cost) {
  if (total_cost < 2 * kSerialCost || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<int64_t>(get_num_threads(), total_cost / kSerialCost));
}

void parallel_ranges(int64_t begin, int64_t end, int64_t grain,
                     void (*run)(void* context, int64_t begin, int64_t end), void* context) {
  const int64_t total = end - begin;
  const int64_t parts = std::min<int64_t>(get_num_threads(), total / std::max<int64_t>(grain, 1));
  if (kSerial || parts <= 1 || omp_in_parallel()) {
    run(context, begin, end);
    return;
  }
  std::exception_ptr error;
  std::atomic_flag failed;
  const ThreadState caller = thread_state;
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const ThreadState own = std::exchange(thread_state, caller);
    try {
      run(context, begin + total * part / parts, begin + total * (part + 1) / parts);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
    thread_state = own;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace flambeau
