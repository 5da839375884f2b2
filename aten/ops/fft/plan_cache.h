#pragma once
// Plans of Fourier transforms by length.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "c10/core/fork_mutex.h"

namespace flambeau::fft {

// Plans by length; all are dropped when there are too many, users keep theirs.
template <typename Plan>
class PlanCache {
 public:
  template <typename Make>
  std::shared_ptr<const Plan> get(int64_t n, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_.find(n);
      if (found != plans_.end()) return found->second;
    }
    std::shared_ptr<const Plan> plan = make();  // may ask for other lengths
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kPlansKept) plans_.clear();
    return plans_.emplace(n, std::move(plan)).first->second;
  }

 private:
  static constexpr size_t kPlansKept = 64;
  ForkMutex mutex_;
  std::map<int64_t, std::shared_ptr<const Plan>> plans_;
};

}  // namespace flambeau::fft
