#pragma once
// The loops of all scatters: self[.., index[p], ..] is combined with src[p] for every position p of
// `index`. Fibers along `dim` never meet, so they may run at once; within one the order is kept.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"

namespace flambeau::scatter {

// Checks of all forms; `src` undefined: a number is written.
void check_arguments(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
// Refuses a self that overlaps itself, its index or its source.
void check_memory(const Tensor& self, const Tensor& index, const Tensor& src);

// Offsets of the three arrays, in elements; no array steps where its stride is 0.
struct Offsets {
  int64_t self = 0;
  int64_t index = 0;
  int64_t src = 0;
};

class Nest {
 public:
  // `index` is int64 and not empty; strides of a source that is one number: empty.
  Nest(const Tensor& self, int64_t dim, const Tensor& index, IntArrayRef src_strides);

  // combine(T& self, const S& src)
  template <typename T, typename S, typename Combine>
  void run(T* self, const int64_t* index, const S* src, const Combine& combine) const {
    const int64_t blocks = (columns_ + width_ - 1) / width_;
    parallel_for(0, outer_ * blocks, length_ * width_ * 3, [&](int64_t begin, int64_t end) {
      int64_t outer = begin / blocks, column = begin % blocks * width_;
      Offsets at = start(outer, column);
      for (int64_t b = begin; b < end; ++b) {
        block(self + at.self, index + at.index, src + at.src, std::min(width_, columns_ - column),
              combine);
        column += width_;
        if (column < columns_) {
          at = {at.self + width_ * across_.self, at.index + width_ * across_.index,
                at.src + width_ * across_.src};
        } else if (b + 1 < end) {
          at = start(++outer, column = 0);
        }
      }
    });
  }

 private:
  Offsets start(int64_t outer, int64_t column) const;
  [[noreturn]] void fail_bounds(int64_t place) const;

  template <typename T, typename S, typename Combine>
  void fiber(T* self, const int64_t* index, const S* src, const Combine& combine) const {
    const bool gapless = along_.self == 1 && along_.index == 1 && along_.src == 1;
    gapless ? fiber(self, index, src, kGapless, combine) : fiber(self, index, src, along_, combine);
  }
  template <typename T, typename S, typename Combine>
  [[gnu::always_inline]] void fiber(T* self, const int64_t* index, const S* src,
                                    const Offsets& step, const Combine& combine) const {
    const auto size = static_cast<uint64_t>(size_);
    for (int64_t i = 0, n = length_; i < n; ++i) {
      const int64_t place = index[i * step.index];
      if (static_cast<uint64_t>(place) >= size) [[unlikely]]
        fail_bounds(place);
      combine(self[place * step.self], src[i * step.src]);
    }
  }

  template <typename T, typename S, typename Combine>
  void block(T* self, const int64_t* index, const S* src, int64_t count,
             const Combine& combine) const {
    if (width_ == 1) return fiber(self, index, src, combine);
    for (int64_t i = 0; i < length_; ++i) {
      const int64_t* places = index + i * along_.index;
      const S* from = src + i * along_.src;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t place = places[j * across_.index];
        if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(size_)) [[unlikely]]
          fail_bounds(place);
        combine(self[place * along_.self + j * across_.self], from[j * across_.src]);
      }
    }
  }

  static constexpr Offsets kGapless{1, 1, 1};

  int64_t dim_ = 0;
  int64_t size_ = 1;     // of self along dim
  int64_t length_ = 1;   // of index along dim
  int64_t columns_ = 1;  // of index along the last other dimension
  int64_t width_ = 1;    // columns per block
  int64_t outer_ = 1;
  Offsets along_;
  Offsets across_;
  DimVector outer_sizes_;
  DimVector outer_strides_[3];
};

}  // namespace flambeau::scatter
