// Stable sort along `dim` on CPU: radix sort of order keys with places, least digit first; short
// rows are sorted by comparison. NaN counts as largest, -0 equals 0. Values are moved, so they keep
// their bits.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "aten/cpu/parallel.h"
#include "aten/ops/sort/entries.h"
#include "aten/ops/sort/radix.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::ops {
namespace {

// Below it comparing beats counting digits; wide digits pay off when their counters are few beside
// n.
constexpr int64_t kRadixFrom = 192;
constexpr int64_t kWideDigitsFrom = 8192;

template <typename Entry>
Entry* sort_entries(int64_t n, int key_bits, Entry* entries, Entry* scratch) {
  if (std::is_sorted(entries, entries + n)) return entries;
  if (n < kRadixFrom) {
    std::sort(entries, entries + n);
    return entries;
  }
  const bool two_bytes = key_bits > 11 && key_bits <= 16;
  return n < kWideDigitsFrom || two_bytes ? sorting::radix_sort<8>(n, key_bits, entries, scratch)
                                          : sorting::radix_sort<11>(n, key_bits, entries, scratch);
}

// What the keys of one call have in common: all lie in [least, least + 2^bits).
struct KeyRange {
  uint64_t least;
  int bits;
};

// Long integers mostly are small ones; keys of floats rarely have bits in common.
template <typename T>
KeyRange key_range(const T* data, int64_t n, bool descending) {
  if constexpr (!is_whole<T> || sizeof(T) < 4) return {0, sorting::kKeyBits<T>};
  uint64_t least = ~uint64_t{0}, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = sorting::key_of(data[i], descending);
    least = std::min(least, key);
    most = std::max(most, key);
  }
  return {least, std::max(1, static_cast<int>(std::bit_width(most - least)))};
}

template <typename T, typename Entry>
void sort_row(int64_t n, const T* from, bool descending, KeyRange keys, Entry* buffer, T* to,
              int64_t* at) {
  if (n <= sorting::kShortRow) {
    sorting::for_each_rank(n, from, descending, [&](int64_t i, int64_t rank) {
      at[rank] = i;
      to[rank] = from[i];
    });
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    buffer[i] = Entry::of(sorting::key_of(from[i], descending) - keys.least, i);
  const Entry* sorted = sort_entries(n, keys.bits, buffer, buffer + n);
  for (int64_t i = 0; i < n; ++i) {
    at[i] = sorted[i].place();
    to[i] = from[at[i]];
  }
}

}  // namespace

void sort_cpu(const Tensor& self, int64_t dim, bool descending, Tensor& values_out,
              Tensor& indices_out) {
  if (self.numel() == 0) return;
  const Tensor in = contiguous_tensor(sorting::dim_last(self, dim));
  const sorting::RowsOut values(values_out, dim), places(indices_out, dim);
  const int64_t n = in.dim() ? in.size(-1) : 1;
  dispatch_ordered(in.dtype(), "sort", [&]<typename T>() {
    const KeyRange keys = key_range(in.data_as<T>(), in.numel(), descending);
    sorting::with_entry(keys.bits, n, [&]<typename Entry>() {
      parallel_for(0, in.numel() / n, n * 16, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<Entry[]> buffer(new Entry[static_cast<size_t>(2 * n)]);
        for (int64_t row = begin; row < end; ++row) {
          sort_row(n, in.data_as<T>() + row * n, descending, keys, buffer.get(),
                   values.data<T>() + row * n, places.data<int64_t>() + row * n);
        }
      });
    });
  });
  values.commit();
  places.commit();
}

}  // namespace flambeau::ops
