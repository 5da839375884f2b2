#pragma once
// A few contiguous sequences at once, each by vectors of its own elements as in row_plan.h, with
// the parts of numbers apart until the end: so real transforms take their pairs apart in vectors
// (Sorensen et al. 1987, "Real-valued fast Fourier transform algorithms"). Sequences of fewer
// vectors than there are lanes share the transforms across the lanes.
#include <memory>
#include <vector>

#include "aten/ops/fft/fft_plan.h"
#include "aten/ops/fft/lane_buffers.h"

namespace flambeau::fft {

template <typename T>
class RowGroup {
 public:
  // For n complex numbers, or 2 n real ones. Null where vectors do not divide n, or too few or too
  // many do.
  static std::shared_ptr<const RowGroup> of(int64_t n);
  explicit RowGroup(int64_t n);

  int64_t rows() const { return rows_; }  // most sequences at once
  // Whether the sequences share transforms across the lanes.
  bool is_short() const { return count_ < loops<T>().lanes; }
  int64_t work_elements() const { return rows_ * (count_ + 1); }

  // `work`: of work_elements(). n interleaved complex numbers to as many; `in` may be `out`.
  void transform(const T* in, T* out, int64_t rows, bool forward, T scale,
                 LaneBuffers<T>& work) const;
  // 2 n real numbers to n + 1 complex ones, and back.
  void transform_real(const T* in, T* out, int64_t rows, T scale, LaneBuffers<T>& work) const;
  void transform_to_real(const T* in, T* out, int64_t rows, T scale, LaneBuffers<T>& work) const;

 private:
  struct Parts {
    T *re, *im;
  };
  // Forward transforms of in, which is overwritten, as `work` is; sequence r of what is returned
  // begins apart() * r elements later.
  Parts execute(int64_t rows, Parts in, Parts work) const;
  int64_t apart() const { return n_ + loops<T>().lanes; }

  int64_t n_;
  int64_t count_;  // vectors of a sequence
  int64_t rows_;
  std::shared_ptr<const LanePlan<T>> down_;
  std::vector<T> twiddles_;
  std::vector<T> roots_;  // of order 2 n, as GroupLoops::unpack takes them
};

}  // namespace flambeau::fft
