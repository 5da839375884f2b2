#pragma once
// Which of two ways to run a part is quicker: found out in its first calls.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace flambeau {

// Both ways run by turns. The first call of each warms up, and the least time of the others counts:
// other work of the machine only ever adds to it. One thread measures; others take the codes.
class FusedTrial {
 public:
  explicit FusedTrial(bool is_measured) : choice_(is_measured ? kOpen : kKernel) {}

  template <typename Run>
  uint32_t run(const Run& run) {
    const int choice = choice_.load(std::memory_order_relaxed);
    if (choice != kOpen) return run(choice == kKernel);
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return run(false);
    using Clock = std::chrono::steady_clock;
    const bool uses_kernel = (calls_ + calls_ / 2) % 2 != 0;  // in the order 0 1 1 0
    const auto begin = Clock::now();
    const uint32_t errors = run(uses_kernel);
    const std::chrono::nanoseconds taken = Clock::now() - begin;
    if (calls_ >= 2) least_[uses_kernel] = std::min(least_[uses_kernel], int64_t{taken.count()});
    const bool is_hopeless = calls_ >= kFewest && least_[1] > 4 * least_[0];
    if (++calls_ == kCalls || is_hopeless)
      choice_ = least_[1] * 100 < least_[0] * kMostPercent ? kKernel : kCodes;
    return errors;
  }
  const char* state() const {
    const int choice = choice_.load(std::memory_order_relaxed);
    return choice == kKernel ? "kernel" : choice == kCodes ? "codes" : "measuring";
  }

 private:
  static constexpr int kOpen = 0, kCodes = 1, kKernel = 2;
  static constexpr int kCalls = 20, kFewest = 8;
  static constexpr int64_t kMostPercent = 97;

  std::atomic<int> choice_;
  std::mutex mutex_;
  int calls_ = 0;
  int64_t least_[2] = {INT64_MAX / 100, INT64_MAX / 100};
};

}  // namespace flambeau
