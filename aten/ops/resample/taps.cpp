#include "aten/ops/resample/taps.h"

#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/resample/resample_loops.h"
#include "c10/core/dtype_dispatch.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(resample::Loops, resample_rows)

namespace resample {
namespace {

// The tensor as (outer, size along dim, inner).
struct Split {
  int64_t outer = 1, n, m, inner = 1;
  Split(const Tensor& self, int64_t dim, const Tensor& out) : n(self.size(dim)), m(out.size(dim)) {
    for (int64_t d = 0; d < dim; ++d) outer *= self.size(d);
    for (int64_t d = dim + 1; d < self.dim(); ++d) inner *= self.size(d);
  }
};

// Outputs that are copies of neighbours in order: one block of memory.
struct Run {
  int64_t to, from, length;
};

std::vector<Run> runs_of(const std::vector<int64_t>& index) {
  std::vector<Run> runs;
  for (size_t o = 0; o < index.size(); ++o) {
    if (o > 0 && index[o] == index[o - 1] + 1) {
      ++runs.back().length;
    } else {
      runs.push_back({static_cast<int64_t>(o), index[o], 1});
    }
  }
  return runs;
}

template <typename T>
void copy(const Taps& taps, const Split& s, const T* in, T* out) {
  const std::vector<Run> runs = runs_of(taps.index);
  const bool scattered = s.inner == 1 && static_cast<int64_t>(runs.size()) * 4 > s.m;
  const int64_t* index = taps.index.data();
  parallel_for(0, s.outer, s.m * s.inner, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = in + r * s.n * s.inner;
      T* to = out + r * s.m * s.inner;
      if (scattered) {
        for (int64_t o = 0; o < s.m; ++o) to[o] = from[index[o]];
      } else {
        for (const Run& run : runs) {
          if (run.length * s.inner == 1) {
            to[run.to] = from[run.from];  // an edge; not worth a call
          } else {
            std::copy_n(from + run.from * s.inner, run.length * s.inner, to + run.to * s.inner);
          }
        }
      }
    }
  });
}

template <typename T>
void sum(const Taps& taps, const Split& s, const T* in, T* out) {
  static const LoopTable<Loops> table = FLAMBEAU_LOOP_TABLE(resample_rows);
  const Loops& loops = table[sizeof(T) == sizeof(double)];
  std::vector<T> weight(taps.weight.begin(), taps.weight.end());
  if (taps.weight.empty()) weight.assign(taps.index.size(), T(1));
  const int64_t *first = taps.first.data(), *index = taps.index.data();
  const auto work = static_cast<int64_t>(taps.index.size());
  if (s.inner == 1) {
    parallel_for(0, s.outer, s.n + 2 * work, [&](int64_t begin, int64_t end) {
      loops.rows(end - begin, s.n, s.m, taps.per_output, first, index, weight.data(),
                 in + begin * s.n, out + begin * s.m);
    });
    return;
  }
  parallel_for(0, s.outer * s.m, s.inner * (1 + work / s.m), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r % s.m;
      loops.row(s.inner, first[o + 1] - first[o], index + first[o], weight.data() + first[o],
                in + r / s.m * s.n * s.inner, out + r * s.inner);
    }
  });
}

}  // namespace

Taps copying(std::vector<int64_t> index) {
  Taps taps;
  taps.index = std::move(index);
  for (size_t o = 0; o <= taps.index.size(); ++o) taps.first.push_back(static_cast<int64_t>(o));
  taps.per_output = 1;
  return taps;
}

Taps transposed(const Taps& taps, int64_t in_size) {
  Taps out;
  out.first.assign(static_cast<size_t>(in_size) + 1, 0);
  for (const int64_t i : taps.index) ++out.first[static_cast<size_t>(i) + 1];
  for (size_t i = 0; i < static_cast<size_t>(in_size); ++i) out.first[i + 1] += out.first[i];
  out.index.resize(taps.index.size());
  out.weight.resize(taps.weight.size());
  std::vector<int64_t> next(out.first.begin(), out.first.end() - 1);
  for (size_t o = 0; o + 1 < taps.first.size(); ++o) {
    for (int64_t t = taps.first[o]; t < taps.first[o + 1]; ++t) {
      const auto from = static_cast<size_t>(t);
      const auto to = static_cast<size_t>(next[static_cast<size_t>(taps.index[from])]++);
      out.index[to] = static_cast<int64_t>(o);
      if (!taps.weight.empty()) out.weight[to] = taps.weight[from];
    }
  }
  return out;
}

void apply(const Taps& taps, const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const bool half = self.dtype() == ScalarType::Float16 || self.dtype() == ScalarType::BFloat16;
  if (half && !taps.copies()) {
    const Tensor wide = empty_like_tensor(out, ScalarType::Float32);
    apply(taps, cast_tensor(self, ScalarType::Float32), dim, wide);
    copy_into(out, wide);
    return;
  }
  dim = wrap_dim(dim, self.dim());
  if (is_channels_last_ordered(out)) {
    return apply(taps, channels_to_back(dense_in_format_of(self, out)),
                 dim_with_channels_at_back(dim, self.dim()), channels_to_back(out));
  }
  const Tensor in = contiguous_tensor(self);
  Split split(in, dim, out);
  if (taps.copies()) {
    dispatch_by_size(element_size(in.dtype()), "resample", [&]<typename T>() {
      copy(taps, split, static_cast<const T*>(in.data()), static_cast<T*>(out.data()));
    });
    return;
  }
  if (in.is_complex()) split.inner *= 2;
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      to_real_type(in.dtype()), "resample", [&]<typename T>() {
        sum(taps, split, static_cast<const T*>(in.data()), static_cast<T*>(out.data()));
      });
}

}  // namespace resample
}  // namespace flambeau
