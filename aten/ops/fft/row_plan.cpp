#include "aten/ops/fft/row_plan.h"

#include "aten/ops/fft/plan_cache.h"
#include "c10/core/isa.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(fft::RowLoops<float>, fft_rows_float)
FLAMBEAU_DECLARE_LOOPS(fft::RowLoops<double>, fft_rows_double)

namespace fft {
namespace {

// Sequence, work arrays and twiddles stay in the second-level cache.
constexpr int64_t kLongestRowBytes = 256 * 1024;

}  // namespace

template <>
const RowLoops<float>& row_loops<float>() {
  static const RowLoops<float>* const tables[] = FLAMBEAU_ALL_LOOPS(fft_rows_float);
  return *tables[cpu_isa()];
}
template <>
const RowLoops<double>& row_loops<double>() {
  static const RowLoops<double>* const tables[] = FLAMBEAU_ALL_LOOPS(fft_rows_double);
  return *tables[cpu_isa()];
}

template <typename T>
std::shared_ptr<const RowPlan<T>> RowPlan<T>::of(int64_t n) {
  const int64_t lanes = loops<T>().lanes;
  if (n % lanes != 0 || n < lanes * lanes) return nullptr;
  if (n > kLongestRowBytes / int64_t{2 * sizeof(T)}) return nullptr;
  if (!LanePlan<T>::of(n / lanes)->is_smooth()) return nullptr;
  static PlanCache<RowPlan> cache;
  return cache.get(n, [n] { return std::make_shared<const RowPlan>(n); });
}

template <typename T>
RowPlan<T>::RowPlan(int64_t n)
    : count_(n / loops<T>().lanes), down_(LanePlan<T>::of(count_)), twiddles_() {
  const int64_t lanes = loops<T>().lanes;
  twiddles_.resize(static_cast<size_t>(2 * n));
  T* to = twiddles_.data();
  for (int64_t k = 0; k < count_; ++k, to += 2 * lanes) {
    for (int64_t j = 0; j < lanes; ++j) {
      double re, im;
      root_of_unity(k * loops<T>().sequence_in(static_cast<int>(j)) % n, n, &re, &im);
      to[j] = static_cast<T>(re);
      to[lanes + j] = static_cast<T>(im);
    }
  }
}

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
