#pragma once
// Sorting and selecting work on entries: an element's order key with its place. No two entries are
// equal and ties go to the lower place, so every algorithm on them is stable.
#include <cstring>
#include <limits>
#include <type_traits>

#include "aten/core/factory.h"
#include "aten/core/view.h"
#include "aten/cpu/order_key.h"

namespace flambeau::sorting {

// Key above place in one word: for keys of up to 32 bits.
struct Narrow {
  uint64_t word;
  static Narrow of(uint64_t key, int64_t place) {
    return {key << 32 | static_cast<uint64_t>(place)};
  }
  uint64_t key() const { return word >> 32; }
  int64_t place() const { return static_cast<int64_t>(word & 0xffffffff); }
  friend bool operator<(Narrow a, Narrow b) { return a.word < b.word; }
};

struct Wide {
  uint64_t bits;
  int64_t at;
  static Wide of(uint64_t key, int64_t place) { return {key, place}; }
  uint64_t key() const { return bits; }
  int64_t place() const { return at; }
  friend bool operator<(const Wide& a, const Wide& b) {
    return a.bits < b.bits || (a.bits == b.bits && a.at < b.at);
  }
};

template <typename T>
inline constexpr int kKeyBits = 8 * static_cast<int>(sizeof(T));

// Unsigned, in the low kKeyBits<T> bits: the smallest comes first in ascending order, the largest
// in descending order. NaN is the largest.
template <typename T>
[[gnu::always_inline]] inline uint64_t key_of(T value, bool descending) {
  constexpr uint64_t kMask = ~uint64_t{0} >> (64 - kKeyBits<T>);
  constexpr bool kUnsigned =
      (std::is_unsigned_v<T> || is_bool<T>) && sizeof(T) < 4;  // order_key is the value
  constexpr uint64_t kBias = kUnsigned ? 0 : uint64_t{1} << (kKeyBits<T> - 1);
  const uint64_t key =
      (static_cast<uint64_t>(static_cast<int64_t>(order_key(value))) + kBias) & kMask;
  return descending ? ~key & kMask : key;
}

// Rows of at most this many elements are ranked by comparing all pairs, without a branch.
inline constexpr int64_t kShortRow = 16;

// f(i, rank) for each of n <= kShortRow elements: how many entries come before its own.
template <typename T, typename F>
void for_each_rank(int64_t n, const T* in, bool descending, const F& f) {
  using Word = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;
  Word keys[kShortRow];
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Word>(key_of(in[i], descending));
  for (int64_t i = 0; i < n; ++i) {
    int64_t rank = 0;
    for (int64_t j = 0; j < i; ++j) rank += keys[j] <= keys[i];
    for (int64_t j = i + 1; j < n; ++j) rank += keys[j] < keys[i];
    f(i, rank);
  }
}

// Calls f.operator()<Entry>() with the entry that fits keys of T and places below n.
template <typename T, typename F>
void with_entry(int64_t n, const F& f) {
  if constexpr (sizeof(T) <= 4) {
    if (n <= std::numeric_limits<uint32_t>::max()) return f.template operator()<Narrow>();
  }
  f.template operator()<Wide>();
}

// The tensor with `dim` moved to the end, without history.
inline Tensor dim_last(const Tensor& t, int64_t dim) {
  if (t.dim() == 0) return t;
  ViewGeometry moved{t.sizes(), t.strides(), t.storage_offset()};
  const auto along = static_cast<size_t>(dim < 0 ? dim + t.dim() : dim);
  moved.sizes.erase(along);
  moved.strides.erase(along);
  moved.sizes.push_back(t.sizes()[along]);
  moved.strides.push_back(t.strides()[along]);
  return plain_view(t, moved);
}

// An output whose rows along `dim` a kernel writes one after the other: in place where they lie so.
class RowsOut {
 public:
  RowsOut(const Tensor& out, int64_t dim) : view_(dim_last(out, dim)) {
    rows_ = view_.is_contiguous() ? view_ : empty_tensor(view_.sizes(), view_.dtype());
  }
  template <typename T>
  T* data() const {
    return rows_.data_as<T>();
  }
  void commit() const {
    if (!rows_.is_same(view_)) copy_into(view_, rows_);
  }

 private:
  Tensor view_;
  Tensor rows_;
};

}  // namespace flambeau::sorting
