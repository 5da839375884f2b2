#include "aten/ops/fft/transform.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "aten/cpu/parallel.h"
#include "aten/ops/fft/fft_plan.h"
#include "aten/ops/fft/lane_buffers.h"
#include "aten/ops/fft/lane_groups.h"
#include "aten/ops/fft/row_group.h"
#include "aten/ops/fft/row_plan.h"
#include "aten/ops/fft/row_transform.h"

namespace flambeau::fft {
namespace {

constexpr int64_t kElementCost = 16;
// From here on, few lanes waste more than splitting costs.
constexpr int64_t kShortRow = 256;

template <typename T>
bool goes_by_rows(int64_t n, Sequences s) {
  if (n > kLongestLane) return true;
  const int64_t capacity = LanePlan<T>::of(n)->capacity();
  const int64_t lanes = s.inner == 1 ? s.outer : s.inner;
  return capacity > kLongestLane || (capacity >= kShortRow && lanes < loops<T>().lanes / 2);
}

// The sequences in blocks of lanes, and where each block begins in a tensor of n elements along
// the dimension. Contiguous sequences take their lanes from `outer`, the others from `inner`.
template <typename T>
class Blocks {
 public:
  explicit Blocks(Sequences s) : s_(s), rows_(s.inner == 1), lanes_(rows_ ? s.outer : s.inner) {
    per_outer_ = (lanes_ + width_ - 1) / width_;
  }
  int64_t count() const { return rows_ ? per_outer_ : s_.outer * per_outer_; }
  int64_t first(int64_t block) const { return block % per_outer_ * width_; }
  int64_t lanes(int64_t block) const { return std::min(width_, lanes_ - first(block)); }
  int64_t base(int64_t block, int64_t n) const {
    return rows_ ? first(block) * n : block / per_outer_ * n * s_.inner + first(block);
  }
  // Of complex elements.
  Layout layout(int64_t n, bool exchanged = false) const {
    return {rows_ ? 2 : 2 * s_.inner, rows_ ? 2 * n : 2, exchanged ? -1 : 1};
  }
  // Of real elements taken in pairs; of single ones without imaginary part.
  Layout pairs(int64_t n) const {
    return {rows_ ? 2 : 2 * s_.inner, rows_ ? n : 1, rows_ ? 1 : s_.inner};
  }
  Layout singles(int64_t n) const { return {rows_ ? 1 : s_.inner, rows_ ? n : 1, 0, false}; }

 private:
  Sequences s_;
  int64_t width_ = loops<T>().lanes;
  bool rows_;
  int64_t lanes_;
  int64_t per_outer_;
};

template <typename T, typename Body>
void for_blocks(const Blocks<T>& blocks, int64_t capacity, const Body& body) {
  parallel_for(0, blocks.count(), capacity * loops<T>().lanes * kElementCost,
               [&](int64_t begin, int64_t end) {
                 LaneBuffers<T> lane(capacity);
                 for (int64_t b = begin; b < end; ++b) body(b, lane);
               });
}

// body(from, to) on one contiguous sequence after the other; `in_size`, `out_size` elements of T
// per position, `in_n`, `out_n` positions.
template <typename T, typename Body>
void for_rows(const T* in, int64_t in_n, int64_t in_size, T* out, int64_t out_n, int64_t out_size,
              Sequences s, const Body& body) {
  if (s.inner == 1) {
    parallel_for(0, s.outer, std::max(in_n, out_n) * kElementCost, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        body(in + o * in_n * in_size, out + o * out_n * out_size);
    });
    return;
  }
  std::vector<T> from(static_cast<size_t>(in_n * in_size)),
      to(static_cast<size_t>(out_n * out_size));
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const int64_t o = line / s.inner, j = line % s.inner;
    for (int64_t k = 0; k < in_n; ++k) {
      std::copy_n(in + ((o * in_n + k) * s.inner + j) * in_size, in_size,
                  &from[static_cast<size_t>(k * in_size)]);
    }
    body(from.data(), to.data());
    for (int64_t k = 0; k < out_n; ++k) {
      std::copy_n(&to[static_cast<size_t>(k * out_size)], out_size,
                  out + ((o * out_n + k) * s.inner + j) * out_size);
    }
  }
}

template <typename T>
void transform_columns(const LanePlan<T>& plan, const T* in, T* out, Sequences s, bool forward,
                       T scale) {
  const int64_t lanes = loops<T>().lanes, shift = forward ? 0 : 1;
  const int64_t groups =
      std::min(LaneGroups<T>::most(plan.capacity()), (s.inner + lanes - 1) / lanes);
  const int64_t width = groups * lanes, per_outer = (s.inner + width - 1) / width;
  const Layout layout{2 * s.inner, 2, forward ? 1 : -1};
  parallel_for(0, s.outer * per_outer, s.n * width * kElementCost, [&](int64_t begin, int64_t end) {
    LaneGroups<T> lane(plan.capacity(), groups);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % per_outer * width, columns = std::min(width, s.inner - first);
      const int64_t base = 2 * (b / per_outer * s.n * s.inner + first) + shift;
      lane.gather(in + base, layout, s.n, columns);
      lane.execute(plan);
      lane.scatter(layout, s.n, columns, scale, out + base);
    }
  });
}

// body(number, buffers) for each of the contiguous sequences.
template <typename T, typename Body>
void for_each_row(Sequences s, const RowPlan<T>& plan, const Body& body) {
  parallel_for(0, s.outer, s.n * kElementCost, [&](int64_t begin, int64_t end) {
    LaneBuffers<T> work(plan.work_elements());
    for (int64_t o = begin; o < end; ++o) body(o, work);
  });
}
// body(first, rows, buffers) for as many of them at once as the group takes.
template <typename T, typename Body>
void for_each_group(Sequences s, const RowGroup<T>& group, const Body& body) {
  const int64_t most = group.rows(), groups = (s.outer + most - 1) / most;
  parallel_for(0, groups, most * s.n * kElementCost, [&](int64_t begin, int64_t end) {
    LaneBuffers<T> work(group.work_elements());
    for (int64_t g = begin; g < end; ++g) body(g * most, std::min(most, s.outer - g * most), work);
  });
}

template <typename T>
std::shared_ptr<const RowGroup<T>> real_group(Sequences s) {
  return s.inner == 1 && s.n % 2 == 0 ? RowGroup<T>::of(s.n / 2) : nullptr;
}

// Long sequences of odd length, as complex ones.
template <typename T>
void transform_real_as_complex(const T* real_in, T* out, Sequences s, T scale) {
  const int64_t kept = s.n / 2 + 1, line = s.n * s.inner;
  std::vector<T> full(static_cast<size_t>(2 * line));
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < line; ++i) {
      full[static_cast<size_t>(2 * i)] = real_in[o * line + i];
      full[static_cast<size_t>(2 * i + 1)] = 0;
    }
    transform(full.data(), full.data(), {1, s.n, s.inner}, true, scale);
    std::copy_n(full.data(), 2 * kept * s.inner, out + 2 * o * kept * s.inner);
    for (int64_t j = 0; j < s.inner; ++j) out[2 * (o * kept * s.inner + j) + 1] = 0;
  }
}
template <typename T>
void transform_complex_to_real(const T* in, T* real_out, Sequences s, T scale) {
  const int64_t given = s.n / 2 + 1, line = s.n * s.inner;
  std::vector<T> full(static_cast<size_t>(2 * line));
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < line; ++i) {
      const int64_t k = i / s.inner, from = k < given ? k : s.n - k;
      const T* x = in + 2 * ((o * given + from) * s.inner + i % s.inner);
      full[static_cast<size_t>(2 * i)] = x[0];
      full[static_cast<size_t>(2 * i + 1)] = k == 0 ? T(0) : k < given ? x[1] : -x[1];
    }
    transform(full.data(), full.data(), {1, s.n, s.inner}, false, scale);
    for (int64_t i = 0; i < line; ++i) real_out[o * line + i] = full[static_cast<size_t>(2 * i)];
  }
}

}  // namespace

template <typename T>
void transform(const T* in, T* out, Sequences s, bool forward, T scale) {
  if (const auto row = s.inner == 1 ? RowPlan<T>::of(s.n) : nullptr) {
    for_each_row<T>(s, *row, [&](int64_t o, LaneBuffers<T>& work) {
      row->execute(in + 2 * o * s.n, out + 2 * o * s.n, forward, scale, work);
    });
    return;
  }
  const auto group = s.inner == 1 ? RowGroup<T>::of(s.n) : nullptr;
  if (group && group->is_short()) {
    for_each_group<T>(s, *group, [&](int64_t o, int64_t rows, LaneBuffers<T>& work) {
      group->transform(in + 2 * o * s.n, out + 2 * o * s.n, rows, forward, scale, work);
    });
    return;
  }
  if (goes_by_rows<T>(s.n, s)) {
    for_rows(in, s.n, 2, out, s.n, 2, s,
             [&](const T* from, T* to) { transform_row(s.n, from, to, forward, scale); });
    return;
  }
  const auto plan = LanePlan<T>::of(s.n);
  if (s.inner > 1) return transform_columns(*plan, in, out, s, forward, scale);
  const Blocks<T> blocks(s);
  const Layout layout = blocks.layout(s.n, !forward);
  const int64_t shift = forward ? 0 : 1;
  for_blocks(blocks, plan->capacity(), [&](int64_t b, LaneBuffers<T>& lane) {
    const int64_t base = 2 * blocks.base(b, s.n) + shift;
    loops<T>().gather(in + base, layout, s.n, blocks.lanes(b), lane.re, lane.im);
    plan->execute(lane.re, lane.im, lane.work_re, lane.work_im);
    loops<T>().scatter(lane.re, lane.im, layout, s.n, blocks.lanes(b), scale, out + base);
  });
}

template <typename T>
void transform_real(const T* real_in, T* out, Sequences s, T scale) {
  const int64_t half = s.n / 2, kept = half + 1;
  const bool even = s.n % 2 == 0;
  if (const auto group = real_group<T>(s)) {
    for_each_group<T>(s, *group, [&](int64_t o, int64_t rows, LaneBuffers<T>& work) {
      group->transform_real(real_in + o * s.n, out + 2 * o * kept, rows, scale, work);
    });
    return;
  }
  if (!even && goes_by_rows<T>(s.n, s)) return transform_real_as_complex(real_in, out, s, scale);
  if (even && goes_by_rows<T>(half, s)) {
    for_rows(real_in, s.n, 1, out, kept, 2, s,
             [&](const T* from, T* to) { transform_real_row(s.n, from, to, scale); });
    return;
  }
  const auto plan = LanePlan<T>::of(even ? half : s.n);
  const Blocks<T> blocks(s);
  const auto roots = even ? real_roots<T>(s.n) : nullptr;
  for_blocks(blocks, std::max(plan->capacity(), kept), [&](int64_t b, LaneBuffers<T>& lane) {
    const int64_t lanes = blocks.lanes(b);
    const T* from = real_in + blocks.base(b, s.n);
    loops<T>().gather(from, even ? blocks.pairs(s.n) : blocks.singles(s.n), plan->length(), lanes,
                      lane.re, lane.im);
    plan->execute(lane.re, lane.im, lane.work_re, lane.work_im);
    if (even) {
      loops<T>().unpack(half, roots->data(), lane.re, lane.im);
    } else {
      std::fill_n(lane.im, loops<T>().lanes, T(0));
    }
    loops<T>().scatter(lane.re, lane.im, blocks.layout(kept), kept, lanes, scale,
                       out + 2 * blocks.base(b, kept));
  });
}

template <typename T>
void transform_to_real(const T* in, T* real_out, Sequences s, T scale) {
  const int64_t half = s.n / 2, given = half + 1;
  const bool even = s.n % 2 == 0;
  if (const auto group = real_group<T>(s)) {
    for_each_group<T>(s, *group, [&](int64_t o, int64_t rows, LaneBuffers<T>& work) {
      group->transform_to_real(in + 2 * o * given, real_out + o * s.n, rows, scale, work);
    });
    return;
  }
  if (!even && goes_by_rows<T>(s.n, s)) return transform_complex_to_real(in, real_out, s, scale);
  if (even && goes_by_rows<T>(half, s)) {
    for_rows(in, given, 2, real_out, s.n, 1, s,
             [&](const T* from, T* to) { transform_row_to_real(s.n, from, to, scale); });
    return;
  }
  const auto plan = LanePlan<T>::of(even ? half : s.n);
  const Blocks<T> blocks(s);
  const auto roots = even ? real_roots<T>(s.n) : nullptr;
  for_blocks(blocks, std::max(plan->capacity(), given), [&](int64_t b, LaneBuffers<T>& lane) {
    const int64_t width = loops<T>().lanes, lanes = blocks.lanes(b);
    loops<T>().gather(in + 2 * blocks.base(b, given), blocks.layout(given), given, lanes, lane.re,
                      lane.im);
    T *re = lane.re, *im = lane.im, *work_re = lane.work_re, *work_im = lane.work_im;
    if (even) {
      loops<T>().pack(half, roots->data(), re, im);
    } else {
      std::fill_n(im, width, T(0));
      for (int64_t k = given; k < s.n; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          re[k * width + j] = re[(s.n - k) * width + j];
          im[k * width + j] = -im[(s.n - k) * width + j];
        }
      }
    }
    plan->execute(im, re, work_im, work_re);  // with the parts exchanged: backward
    loops<T>().scatter(re, im, even ? blocks.pairs(s.n) : blocks.singles(s.n), plan->length(),
                       lanes, scale, real_out + blocks.base(b, s.n));
  });
}

template void transform<float>(const float*, float*, Sequences, bool, float);
template void transform<double>(const double*, double*, Sequences, bool, double);
template void transform_real<float>(const float*, float*, Sequences, float);
template void transform_real<double>(const double*, double*, Sequences, double);
template void transform_to_real<float>(const float*, float*, Sequences, float);
template void transform_to_real<double>(const double*, double*, Sequences, double);

}  // namespace flambeau::fft
