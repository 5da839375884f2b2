#include "c10/core/interrupt.h"

#include <ctime>
#include <utility>

namespace flambeau::c10 {

std::atomic<InterruptPoll> interrupt_poll{nullptr};
std::atomic<LibraryNote> note_library_use{nullptr};
thread_local constinit const std::atomic<bool>* stop_flag = nullptr;

namespace {

constexpr int64_t kPollInterval = 100'000'000;  // ns

std::atomic<bool> work_must_stop{false};
thread_local constinit int64_t next_poll = 0;

// The host may run code of the user, whose operators belong to no region.
class OutsideOfRegion {
 public:
  OutsideOfRegion() : previous_(std::exchange(stop_flag, nullptr)) {}
  ~OutsideOfRegion() { stop_flag = previous_; }
  OutsideOfRegion(const OutsideOfRegion&) = delete;
  OutsideOfRegion& operator=(const OutsideOfRegion&) = delete;

 private:
  const std::atomic<bool>* previous_;
};

}  // namespace

int64_t coarse_time() {
#ifdef __x86_64__
  return static_cast<int64_t>(__builtin_ia32_rdtsc() / 2);  // clocks count at 1 to 4 GHz
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
#endif
}

void check_interrupt() {
  const bool region_stops = stop_flag && stop_flag->load(std::memory_order_relaxed);
  if (region_stops || work_must_stop.load(std::memory_order_relaxed)) throw Stopped();
  const InterruptPoll poll = interrupt_poll.load(std::memory_order_relaxed);
  if (!poll) return;
  const int64_t now = coarse_time();
  if (now < next_poll && next_poll - now <= kPollInterval) return;  // else the clock was set back
  next_poll = now + kPollInterval;
  const OutsideOfRegion scope;
  poll();
}

void stop_long_work() noexcept { work_must_stop.store(true, std::memory_order_relaxed); }

}  // namespace flambeau::c10
