// One long sequence of n = rows * columns elements: short transforms along the columns of the
// rows x columns matrix, twiddles, short transforms along its rows, read out transposed (Gentleman
// & Sande 1966; Bailey 1990, "FFTs in external or hierarchical memory"). Every short transform
// works on data that fit the cache, and blocks of them are shared among the threads.
#include "aten/ops/fft/row_transform.h"

#include <algorithm>
#include <vector>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/fft/fft_plan.h"
#include "aten/ops/fft/lane_buffers.h"
#include "aten/ops/fft/lane_groups.h"
#include "aten/ops/fft/row_plan.h"

namespace flambeau::fft {
namespace {

// Complex numbers with the parts exchanged: the forward transform of those is the backward one.
Layout complex_layout(int64_t step, int64_t lane_step, bool exchanged) {
  return {2 * step, 2 * lane_step, exchanged ? -1 : 1};
}

// A block of lanes costs this much per element, in the units of parallel_for.
constexpr int64_t kElementCost = 16;

// body(first, count, groups) on runs of neighbouring lanes, as many at once as the cache holds.
template <typename T, typename Body>
void for_groups(int64_t lanes, int64_t length, const Body& body) {
  const int64_t groups = LaneGroups<T>::most(length), width = groups * loops<T>().lanes;
  parallel_for(0, (lanes + width - 1) / width, length * width * kElementCost,
               [&](int64_t begin, int64_t end) {
                 LaneGroups<T> lane(length, groups);
                 for (int64_t b = begin; b < end; ++b)
                   body(b * width, std::min(width, lanes - b * width), lane);
               });
}

template <typename T>
void split_row(const SplitPlan<T>& split, const T* in, T* out, bool forward, T scale) {
  const int64_t rows = split.rows(), columns = split.columns(), shift = forward ? 0 : 1;
  const Tensor scratch = empty_tensor({2 * rows * columns}, scalar_type_of<T>);
  T* const middle = scratch.data_as<T>();
  const auto down = LanePlan<T>::of(rows), along = LanePlan<T>::of(columns);
  for_groups<T>(columns, rows, [&](int64_t first, int64_t lanes, LaneGroups<T>& lane) {
    lane.gather(in + 2 * first + shift, complex_layout(columns, 1, !forward), rows, lanes);
    lane.execute(*down);
    std::vector<T> starts(static_cast<size_t>(2 * rows));
    lane.each([&](int64_t group, T* re, T* im) {
      split.starts(first + group * loops<T>().lanes, starts.data());
      loops<T>().twist(rows, starts.data(), split.steps().data(), re, im);
    });
    lane.scatter(complex_layout(columns, 1, false), rows, lanes, T(1), middle + 2 * first);
  });
  for_groups<T>(rows, columns, [&](int64_t first, int64_t lanes, LaneGroups<T>& lane) {
    lane.gather_rows(middle + 2 * first * columns, complex_layout(1, columns, false), columns,
                     lanes);
    lane.execute(*along);
    lane.scatter(complex_layout(rows, 1, !forward), columns, lanes, scale, out + 2 * first + shift);
  });
}

template <typename T>
void single_lane(const LanePlan<T>& plan, const T* in, T* out, bool forward, T scale) {
  const int64_t n = plan.length(), shift = forward ? 0 : 1;
  LaneBuffers<T> lane(plan.capacity());
  const Layout layout = complex_layout(1, n, !forward);
  loops<T>().gather(in + shift, layout, n, 1, lane.re, lane.im);
  plan.execute(lane.re, lane.im, lane.work_re, lane.work_im);
  loops<T>().scatter(lane.re, lane.im, layout, n, 1, scale, out + shift);
}

// out[k] = a[k] b[k] scale, with the parts of the input or the output exchanged.
template <typename T>
void multiply_rows(int64_t n, const T* a, bool exchange_in, const T* b, T scale, bool exchange_out,
                   T* out) {
  parallel_for(0, n, 8, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T re = a[2 * k + exchange_in], im = a[2 * k + !exchange_in];
      const T c = b[2 * k] * scale, s = b[2 * k + 1] * scale;
      out[2 * k + exchange_out] = re * c - im * s;
      out[2 * k + !exchange_out] = re * s + im * c;
    }
  });
}

template <typename T>
void chirp_row(const LanePlan<T>& plan, const T* in, T* out, bool forward, T scale) {
  const int64_t n = plan.length(), m = plan.capacity();
  std::vector<T> padded(static_cast<size_t>(2 * m));
  multiply_rows(n, in, !forward, plan.chirp().data(), T(1), false, padded.data());
  transform_row(m, padded.data(), padded.data(), true, T(1));
  multiply_rows(m, padded.data(), false, plan.spectrum().data(), T(1), false, padded.data());
  transform_row(m, padded.data(), padded.data(), false, T(1));
  multiply_rows(n, padded.data(), false, plan.chirp().data(), scale, !forward, out);
}

}  // namespace

template <typename T>
void transform_row(int64_t n, const T* in, T* out, bool forward, T scale) {
  if (const auto row = RowPlan<T>::of(n)) {
    LaneBuffers<T> work(row->work_elements());
    return row->execute(in, out, forward, scale, work);
  }
  const auto split = SplitPlan<T>::of(n);
  const auto is_smooth = [&] { return LanePlan<T>::of(split->columns())->is_smooth(); };
  if (split->splits() && is_smooth()) {
    split_row(*split, in, out, forward, scale);
    return;
  }
  const auto plan = LanePlan<T>::of(n);
  if (plan->is_smooth()) {
    single_lane(*plan, in, out, forward, scale);
  } else {
    chirp_row(*plan, in, out, forward, scale);
  }
}

// The formulas stand at Loops::unpack and Loops::pack.
template <typename T>
void transform_real_row(int64_t n, const T* real_in, T* out, T scale) {
  const int64_t half = n / 2;
  std::vector<T> pairs(static_cast<size_t>(n));
  transform_row(half, real_in, pairs.data(), true, T(1));
  const auto roots = real_roots<T>(n);
  const T* w = roots->data();
  const T by = T(0.5) * scale;
  parallel_for(0, half + 1, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T *z = pairs.data() + 2 * (k % half), *y = pairs.data() + 2 * ((half - k) % half);
      const T sum_re = z[0] + y[0], sum_im = z[1] - y[1];
      const T odd_re = z[0] - y[0], odd_im = z[1] + y[1];
      const T c = w[2 * k], s = w[2 * k + 1];
      out[2 * k] = by * (sum_re + odd_re * s + odd_im * c);
      out[2 * k + 1] = k % half == 0 ? T(0) : by * (sum_im - odd_re * c + odd_im * s);
    }
  });
}

template <typename T>
void transform_row_to_real(int64_t n, const T* in, T* real_out, T scale) {
  const int64_t half = n / 2;
  std::vector<T> pairs(static_cast<size_t>(n));
  const auto roots = real_roots<T>(n);
  const T* w = roots->data();
  parallel_for(0, half, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T *x = in + 2 * k, *y = in + 2 * (half - k);
      const T keep = k == 0 ? T(0) : T(1);
      const T x_im = keep * x[1], y_im = -keep * y[1];
      const T odd_re = x[0] - y[0], odd_im = x_im - y_im, c = w[2 * k], s = -w[2 * k + 1];
      pairs[static_cast<size_t>(2 * k)] = x[0] + y[0] - (odd_re * s + odd_im * c);
      pairs[static_cast<size_t>(2 * k + 1)] = x_im + y_im + (odd_re * c - odd_im * s);
    }
  });
  transform_row(half, pairs.data(), real_out, false, scale);
}

template void transform_row<float>(int64_t, const float*, float*, bool, float);
template void transform_row<double>(int64_t, const double*, double*, bool, double);
template void transform_real_row<float>(int64_t, const float*, float*, float);
template void transform_real_row<double>(int64_t, const double*, double*, double);
template void transform_row_to_real<float>(int64_t, const float*, float*, float);
template void transform_row_to_real<double>(int64_t, const double*, double*, double);

}  // namespace flambeau::fft
