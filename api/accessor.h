#pragma once
// Accessors: the elements of a tensor of known dtype and rank, addressed by indices.
#include "c10/core/array_ref.h"
#include "c10/core/check.h"

namespace flambeau::api {

template <typename T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <typename T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// Views sizes and strides that the tensor owns; use it while the tensor lives.
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits,
          typename Index = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;

  TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  c10::ArrayRef<Index> sizes() const { return {sizes_, N}; }
  c10::ArrayRef<Index> strides() const { return {strides_, N}; }
  Index size(Index d) const { return sizes_[d]; }
  Index stride(Index d) const { return strides_[d]; }
  PtrType data() const { return data_; }
  decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1,
                                                     strides_ + 1);
    }
  }

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;
};

// Owns its sizes and strides, so that it can be passed to a kernel by value.
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits,
          typename Index = int64_t>
class PackedTensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;

  PackedTensorAccessor(PtrType data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t d = 0; d < N; ++d) {
      sizes_[d] = static_cast<Index>(sizes[d]);
      strides_[d] = static_cast<Index>(strides[d]);
      c10::check(sizes_[d] == sizes[d] && strides_[d] == strides[d],
                 "packed_accessor: expected sizes and strides that fit the index type, got ",
                 sizes[d], " and ", strides[d]);
    }
  }
  Index size(Index d) const { return sizes_[d]; }
  Index stride(Index d) const { return strides_[d]; }
  PtrType data() const { return data_; }
  decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1,
                                                     strides_ + 1);
    }
  }

 private:
  PtrType data_;
  Index sizes_[N];
  Index strides_[N];
};

template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, Traits, int32_t>;
template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, Traits, int64_t>;

}  // namespace flambeau::api
