#pragma once
// Memory of one thread for transforms side by side.
#include <cstdlib>
#include <memory>
#include <new>

#include "aten/ops/fft/fft_plan.h"

namespace flambeau::fft {

template <typename T>
class LaneBuffers {
 public:
  explicit LaneBuffers(int64_t elements) {
    // One line between the arrays, so that equal places of two do not share a cache set.
    constexpr int64_t kLine = 64 / sizeof(T);
    const int64_t each = (elements * loops<T>().lanes + 2 * kLine - 1) / kLine * kLine;
    const size_t bytes = static_cast<size_t>(4 * each) * sizeof(T);
    memory_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (!memory_) throw std::bad_alloc();
    re = memory_.get();
    im = re + each;
    work_re = im + each;
    work_im = work_re + each;
  }
  T* re;
  T* im;
  T* work_re;
  T* work_im;

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> memory_;
};

}  // namespace flambeau::fft
