// mode and nanmedian along `dim` on CPU, on rows in order.
// Formula: mode: the most frequent element, the smallest of several, at one of its places;
// nanmedian: the lower median of what is not NaN.
// Accumulates in: none: values are moved.
// NaN, infinity: mode: NaN equals no other NaN and comes last; nanmedian: NaN where there is
// nothing else.
// Error: none: exact.
// Source: by definition.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "aten/cpu/parallel.h"
#include "aten/ops/sort/entries.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::ops {
namespace {

// Sorted by value alone, as PyTorch does: which of many equal elements comes last is up to
// std::sort.
template <typename T>
int64_t mode_place(int64_t n, const T* in) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [in](int64_t a, int64_t b) { return order_key(in[a]) < order_key(in[b]); });
  int64_t place = order[0], most = 0, run = 0;
  for (int64_t i = 0; i < n; ++i) {
    ++run;
    const int64_t at = order[static_cast<size_t>(i)];
    if (i + 1 < n && in[at] == in[order[static_cast<size_t>(i) + 1]]) continue;
    if (run > most) {
      most = run;
      place = at;
    }
    run = 0;
  }
  return place;
}

template <typename T, typename Entry>
int64_t nanmedian_place(int64_t n, const T* in, Entry* entries) {
  int64_t numbers = 0;
  for (int64_t i = 0; i < n; ++i) numbers += in[i] == in[i];
  const int64_t rank = numbers > 0 ? (numbers - 1) / 2 : 0;
  std::nth_element(entries, entries + rank, entries + n);
  return entries[rank].place();
}

// find(n, row, entries) gives the chosen place of each row.
template <typename Find>
void choose(const char* op, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices,
            const Find& find) {
  if (values.numel() == 0) return;
  const Tensor in = contiguous_tensor(sorting::dim_last(self, dim));
  const int64_t n = in.dim() ? in.size(-1) : 1;
  dispatch_ordered(in.dtype(), op, [&]<typename T>() {
    sorting::with_entry<T>(n, [&]<typename Entry>() {
      parallel_for(0, values.numel(), n * 8, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<Entry[]> entries(new Entry[static_cast<size_t>(n)]);
        for (int64_t row = begin; row < end; ++row) {
          const T* from = in.data_as<T>() + row * n;
          for (int64_t i = 0; i < n; ++i)
            entries[i] = Entry::of(sorting::key_of(from[i], false), i);
          const int64_t place = find(n, from, entries.get());
          values.data_as<T>()[row] = from[place];
          indices.data_as<int64_t>()[row] = place;
        }
      });
    });
  });
}

}  // namespace

void mode_cpu(const Tensor& self, int64_t dim, bool, Tensor& values, Tensor& indices) {
  choose("mode", self, dim, values, indices,
         [](int64_t n, const auto* in, auto*) { return mode_place(n, in); });
}

void nanmedian_dim_cpu(const Tensor& self, int64_t dim, bool, Tensor& values, Tensor& indices) {
  choose("nanmedian", self, dim, values, indices,
         [](int64_t n, const auto* in, auto* entries) { return nanmedian_place(n, in, entries); });
}

}  // namespace flambeau::ops
