// Stable sort along `dim` on CPU.
// Formula: values in order and their places: radix sort of order keys with places, least digit
// first; short rows are sorted by comparison.
// Accumulates in: none: values are moved, so they keep their bits.
// NaN, infinity: NaN counts as largest; -0 equals 0.
// Error: none: exact.
// Source: by definition.
#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <type_traits>

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
constexpr int kParallelDigit = 8;

// A key above a place in one word, where both fit.
struct Packed {
  uint64_t word;
  friend bool operator<(Packed a, Packed b) { return a.word < b.word; }
};

// How entries of one row are made and read.
struct Packing {
  using Entry = Packed;
  int place_bits;
  Packed of(uint64_t key, int64_t place) const {
    return {key << place_bits | static_cast<uint64_t>(place)};
  }
  uint64_t key(Packed e) const { return e.word >> place_bits; }
  int64_t place(Packed e) const {
    return static_cast<int64_t>(e.word & ((uint64_t{1} << place_bits) - 1));
  }
};
struct Apart {
  using Entry = sorting::Wide;
  Entry of(uint64_t key, int64_t place) const { return Entry::of(key, place); }
  uint64_t key(const Entry& e) const { return e.key(); }
  int64_t place(const Entry& e) const { return e.place(); }
};

template <typename Form>
auto sort_entries(int64_t n, int key_bits, const Form& form, typename Form::Entry* entries,
                  typename Form::Entry* scratch) {
  using Entry = typename Form::Entry;
  if (std::is_sorted(entries, entries + n)) return entries;
  if (n < kRadixFrom) {
    std::sort(entries, entries + n);
    return entries;
  }
  const auto key = [form](const Entry& e) { return form.key(e); };
  const int parts = parts_worthwhile(n * 8);
  if (parts > 1) {
    return sorting::parallel_radix_sort<kParallelDigit>(n, key_bits, entries, scratch, key, parts);
  }
  const bool two_bytes = key_bits > 11 && key_bits <= 16;
  return n < kWideDigitsFrom || two_bytes
             ? sorting::radix_sort<8>(n, key_bits, entries, scratch, key)
             : sorting::radix_sort<11>(n, key_bits, entries, scratch, key);
}

// Whether the key tells the element's bits, which those of floats do not: 0 and -0 have one.
template <typename T>
inline constexpr bool has_value = std::is_integral_v<T> && !std::is_same_v<T, bool>;

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
  std::mutex found;
  parallel_for(0, n, 2, [&](int64_t begin, int64_t end) {
    uint64_t low = ~uint64_t{0}, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t key = sorting::key_of(data[i], descending);
      low = std::min(low, key);
      high = std::max(high, key);
    }
    const std::lock_guard lock(found);
    least = std::min(least, low);
    most = std::max(most, high);
  });
  return {least, std::max(1, static_cast<int>(std::bit_width(most - least)))};
}

// The whole number that has a key.
template <typename T>
T value_of(uint64_t key, bool descending) {
  constexpr int kUnused = 64 - sorting::kKeyBits<T>;
  const uint64_t bits = descending ? ~key << kUnused >> kUnused : key;
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(bits ^ uint64_t{1} << (sorting::kKeyBits<T> - 1));
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T, typename Form>
void sort_row(int64_t n, const T* from, bool descending, KeyRange keys, const Form& form,
              typename Form::Entry* buffer, T* to, int64_t* at) {
  if (n <= sorting::kShortRow) {
    sorting::for_each_rank(n, from, descending, [&](int64_t i, int64_t rank) {
      at[rank] = i;
      to[rank] = from[i];
    });
    return;
  }
  parallel_for(0, n, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      buffer[i] = form.of(sorting::key_of(from[i], descending) - keys.least, i);
  });
  const auto* sorted = sort_entries(n, keys.bits, form, buffer, buffer + n);
  parallel_for(0, n, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) at[i] = form.place(sorted[i]);
    if constexpr (has_value<T>) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = value_of<T>(form.key(sorted[i]) + keys.least, descending);
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = from[at[i]];
    }
  });
}

template <typename F>
void with_form(int key_bits, int64_t n, const F& f) {
  const int place_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1))));
  key_bits + place_bits <= 64 ? f(Packing{place_bits}) : f(Apart{});
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
    with_form(keys.bits, n, [&](const auto& form) {
      using Entry = typename std::decay_t<decltype(form)>::Entry;
      parallel_for(0, in.numel() / n, n * 16, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<Entry[]> buffer(new Entry[static_cast<size_t>(2 * n)]);
        for (int64_t row = begin; row < end; ++row) {
          sort_row(n, in.data_as<T>() + row * n, descending, keys, form, buffer.get(),
                   values.data<T>() + row * n, places.data<int64_t>() + row * n);
        }
      });
    });
  });
  values.commit();
  places.commit();
}

}  // namespace flambeau::ops
