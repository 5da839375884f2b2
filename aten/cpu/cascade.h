#pragma once
// The accumulators of reductions over many steps.
#include <cstddef>
#include <cstdint>

#include "aten/core/loop_types.h"
#include "aten/cpu/scratch.h"

namespace flambeau {

// Partial results in levels, as carries in a number of base kRadix: any one accumulator takes few
// steps, so the rounding error of a sum of n steps grows with kRadix * log(n).
class Cascade {
 public:
  Cascade(const ReduceLoops& loops, int64_t n, size_t acc_size)
      : loops_(loops), n_(n), bytes_(n * static_cast<int64_t>(acc_size)) {
    open(0);
  }
  char* lowest() { return levels_[0]; }
  // Call after each step into lowest().
  void step() {
    for (int l = 0; ++steps_[l] == kRadix && l + 1 < kLevels; ++l) {
      if (l + 1 == used_) open(l + 1);
      loops_.merge(n_, levels_[l], levels_[l + 1]);
      loops_.init(n_, levels_[l]);
      steps_[l] = 0;
    }
  }
  void merge_into(char* acc) {
    for (int l = 0; l < used_; ++l) loops_.merge(n_, levels_[l], acc);
  }

 private:
  static constexpr int64_t kRadix = 32;
  static constexpr int kLevels = 5;
  void open(int level) {
    levels_[level] = scratch_.take(bytes_);
    loops_.init(n_, levels_[level]);
    steps_[level] = 0;
    used_ = level + 1;
  }

  const ReduceLoops& loops_;
  int64_t n_;
  int64_t bytes_;  // of one level
  int used_ = 0;
  int64_t steps_[kLevels];
  char* levels_[kLevels];
  Scratch<> scratch_;
};

}  // namespace flambeau
