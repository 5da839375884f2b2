#include "aten/ops/fft/row_plan.h"

#include "aten/core/loop_table.h"
#include "aten/ops/fft/plan_cache.h"
#include "aten/ops/fft/row_tables.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(fft::RowLoops<float>, fft_rows_float)
FLAMBEAU_DECLARE_LOOPS(fft::RowLoops<double>, fft_rows_double)

namespace fft {

template <>
const RowLoops<float>& row_loops<float>() {
  static const LoopTable<RowLoops<float>> table = FLAMBEAU_LOOP_TABLE(fft_rows_float);
  return table[0];
}
template <>
const RowLoops<double>& row_loops<double>() {
  static const LoopTable<RowLoops<double>> table = FLAMBEAU_LOOP_TABLE(fft_rows_double);
  return table[0];
}

template <typename T>
std::shared_ptr<const RowPlan<T>> RowPlan<T>::of(int64_t n) {
  if (!fits_lanes<T>(n, loops<T>().lanes)) return nullptr;
  static PlanCache<RowPlan> cache;
  return cache.get(n, [n] { return std::make_shared<const RowPlan>(n); });
}

template <typename T>
RowPlan<T>::RowPlan(int64_t n)
    : count_(n / loops<T>().lanes),
      down_(LanePlan<T>::of(count_)),
      twiddles_(lane_twiddles<T>(count_, n, [](int64_t k, int64_t lane) {
        return k * loops<T>().sequence_in(static_cast<int>(lane));
      })) {}

template <typename T>
void RowPlan<T>::execute(const T* in, T* out, bool forward, T scale, LaneBuffers<T>& work) const {
  const RowLoops<T>& table = row_loops<T>();
  T *re = work.re, *im = work.im, *other_re = work.work_re, *other_im = work.work_im;
  // With the parts exchanged before and behind, the forward transform is the backward one.
  table.split(in, count_, forward ? re : im, forward ? im : re);
  down_->execute(re, im, other_re, other_im);
  table.across(re, im, count_, twiddles_.data(), scale, !forward, out);
}

template class RowPlan<float>;
template class RowPlan<double>;

}  // namespace fft
}  // namespace flambeau
