#pragma once
// One contiguous sequence by vectors of its own elements. With n = m * lanes, element k * lanes + l
// is element k of lane l: transforms of m points side by side, twiddles, and transforms across the
// lanes give X[k + m t] (Bailey 1990). It fits the cache where several sequences side by side
// would not.
#include <memory>
#include <vector>

#include "aten/ops/fft/fft_plan.h"
#include "aten/ops/fft/lane_buffers.h"

namespace flambeau::fft {

template <typename T>
const RowLoops<T>& row_loops();

template <typename T>
class RowPlan {
 public:
  // Null where n is not such a product, or too long for the cache.
  static std::shared_ptr<const RowPlan> of(int64_t n);
  explicit RowPlan(int64_t n);

  // n interleaved complex numbers; `in` may be `out`. `work`: of work_elements().
  void execute(const T* in, T* out, bool forward, T scale, LaneBuffers<T>& work) const;
  int64_t work_elements() const { return count_; }

 private:
  int64_t count_;  // of elements of a lane
  std::shared_ptr<const LanePlan<T>> down_;
  std::vector<T> twiddles_;
};

}  // namespace flambeau::fft
