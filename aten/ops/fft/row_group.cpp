#include "aten/ops/fft/row_group.h"

#include <algorithm>
#include <utility>

#include "aten/core/loop_table.h"
#include "aten/ops/fft/plan_cache.h"
#include "aten/ops/fft/row_tables.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(fft::GroupLoops<float>, fft_groups_float)
FLAMBEAU_DECLARE_LOOPS(fft::GroupLoops<double>, fft_groups_double)

namespace fft {
namespace {

// Fewer vectors waste most lanes of the transforms across them.
constexpr int64_t kFewestVectors = 4;

template <typename T>
const GroupLoops<T>& group_loops();
template <>
const GroupLoops<float>& group_loops<float>() {
  static const LoopTable<GroupLoops<float>> table = FLAMBEAU_LOOP_TABLE(fft_groups_float);
  return table[0];
}
template <>
const GroupLoops<double>& group_loops<double>() {
  static const LoopTable<GroupLoops<double>> table = FLAMBEAU_LOOP_TABLE(fft_groups_double);
  return table[0];
}

}  // namespace

template <typename T>
std::shared_ptr<const RowGroup<T>> RowGroup<T>::of(int64_t n) {
  if (!fits_lanes<T>(n, kFewestVectors)) return nullptr;
  static PlanCache<RowGroup> cache;
  return cache.get(n, [n] { return std::make_shared<const RowGroup>(n); });
}

template <typename T>
RowGroup<T>::RowGroup(int64_t n)
    : n_(n),
      count_(n / loops<T>().lanes),
      rows_(std::max<int64_t>(1, loops<T>().lanes / count_)),
      down_(LanePlan<T>::of(count_)),
      twiddles_(
          lane_twiddles<T>(count_ * rows_, n,
                           [count = count_](int64_t k, int64_t lane) { return k % count * lane; })),
      roots_() {
  const int64_t known = n / 2 + loops<T>().lanes;
  roots_.resize(static_cast<size_t>(2 * known));
  for (int64_t k = 0; k < known; ++k)
    put_root(k, 2 * n, roots_[static_cast<size_t>(k)], roots_[static_cast<size_t>(known + k)]);
}

template <typename T>
auto RowGroup<T>::execute(int64_t rows, Parts in, Parts work) const -> Parts {
  const GroupLoops<T>& table = group_loops<T>();
  if (!table.down(rows, count_, in.re, in.im)) {
    Parts lane = in, spare = work;
    for (int64_t r = 0; r < rows; ++r) {
      lane = {in.re + r * n_, in.im + r * n_};
      spare = {work.re + r * n_, work.im + r * n_};
      down_->execute(lane.re, lane.im, spare.re, spare.im);
    }
    if (lane.re != in.re + (rows - 1) * n_) std::swap(in, work);
  }
  table.across(in.re, in.im, count_, rows, twiddles_.data(), work.re, work.im);
  return work;
}

template <typename T>
void RowGroup<T>::transform(const T* in, T* out, int64_t rows, bool forward, T scale,
                            LaneBuffers<T>& work) const {
  const GroupLoops<T>& table = group_loops<T>();
  // With the parts exchanged before and behind, the forward transform is the backward one.
  const Parts from = forward ? Parts{work.re, work.im} : Parts{work.im, work.re};
  for (int64_t r = 0; r < rows; ++r)
    table.split(in + 2 * r * n_, count_, work.re + r * n_, work.im + r * n_);
  Parts z = execute(rows, from, {work.work_re, work.work_im});
  if (!forward) std::swap(z.re, z.im);
  for (int64_t r = 0; r < rows; ++r)
    table.join(z.re + r * apart(), z.im + r * apart(), count_, scale, out + 2 * r * n_);
}

template <typename T>
void RowGroup<T>::transform_real(const T* in, T* out, int64_t rows, T scale,
                                 LaneBuffers<T>& work) const {
  const GroupLoops<T>& table = group_loops<T>();
  for (int64_t r = 0; r < rows; ++r)
    table.split(in + 2 * r * n_, count_, work.re + r * n_, work.im + r * n_);
  const Parts z = execute(rows, {work.re, work.im}, {work.work_re, work.work_im});
  for (int64_t r = 0; r < rows; ++r) {
    table.unpack(n_, roots_.data(), scale, z.re + r * apart(), z.im + r * apart(),
                 out + 2 * r * (n_ + 1));
  }
}

template <typename T>
void RowGroup<T>::transform_to_real(const T* in, T* out, int64_t rows, T scale,
                                    LaneBuffers<T>& work) const {
  const GroupLoops<T>& table = group_loops<T>();
  for (int64_t r = 0; r < rows; ++r)
    table.pack(n_, roots_.data(), in + 2 * r * (n_ + 1), work.re + r * n_, work.im + r * n_);
  const Parts z = execute(rows, {work.im, work.re}, {work.work_re, work.work_im});
  for (int64_t r = 0; r < rows; ++r)
    table.join(z.im + r * apart(), z.re + r * apart(), count_, scale, out + 2 * r * n_);
}

template class RowGroup<float>;
template class RowGroup<double>;

}  // namespace fft
}  // namespace flambeau
