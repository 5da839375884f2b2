#pragma once
// What pointwise and reduction kernels share: storage types, offsets, launch geometry. Device code
// computes half and bfloat16 in float, as the CPU's loops do; each storage type has its own kernel.
#include <cuda_runtime_api.h>

#include "aten/core/loop_values.h"
#include "aten/cuda/vecmath.cuh"

namespace flambeau::cuda {

using c10::complex;
using c10::StoredBool;
using loops::count_as;
using loops::highest;
using loops::lowest;
using loops::param;
using loops::real_t;
using loops::store_as;

inline constexpr int kThreads = 256;
// Dimensions left after merging those that are contiguous with one another.
inline constexpr int kMaxLaunchDims = 12;

// IEEE binary16 and bfloat16 in memory; conversions are one instruction on the device.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename Value, typename Storage>
FLAMBEAU_HOST_DEVICE inline Value load_as(Storage stored) {
  if constexpr (__is_same(Storage, Half)) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(stored.bits));
    return Value(value);
#else
    return Value(static_cast<float>(__builtin_bit_cast(_Float16, stored.bits)));
#endif
  } else if constexpr (__is_same(Storage, BFloat16)) {
    return Value(__builtin_bit_cast(float, static_cast<uint32_t>(stored.bits) << 16));
  } else {
    return Value(stored);
  }
}

template <typename Storage, typename Value>
FLAMBEAU_HOST_DEVICE inline Storage stored_as(Value value) {
  if constexpr (__is_same(Storage, Half)) {
#ifdef __CUDA_ARCH__
    Half half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(static_cast<float>(value)));
    return half;
#else
    return Half{__builtin_bit_cast(uint16_t, static_cast<_Float16>(value))};
#endif
  } else if constexpr (__is_same(Storage, BFloat16)) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(value));
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return BFloat16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
    return BFloat16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  } else {
    return static_cast<Storage>(value);
  }
}

// Results of the compute type are stored as the operands are; other ones (bool, real) as they are.
template <typename F, typename Storage>
struct OutStorage {
  using type = typename F::Out;
};
template <typename F, typename Storage>
  requires __is_same
(typename F::Out, typename F::Value) struct OutStorage<F, Storage> {
  using type = Storage;
};

// Where element `index` of a row-major walk lies in each of K arrays; sizes are innermost first.
template <int K>
struct Offsets {
  int64_t of[K > 0 ? K : 1] = {};
};
template <int K>
FLAMBEAU_HOST_DEVICE inline Offsets<K> offsets(int64_t index, int ndim, const int64_t* sizes,
                                               const int64_t (*strides)[kMaxLaunchDims]) {
  Offsets<K> result;
  for (int d = 0; d < ndim; ++d) {
    // 32-bit division is several times cheaper than 64-bit on the device.
    const bool narrow = ((index | sizes[d]) >> 31) == 0;
    const int64_t next =
        narrow ? static_cast<uint32_t>(index) / static_cast<uint32_t>(sizes[d]) : index / sizes[d];
    const int64_t place = index - next * sizes[d];
#pragma unroll
    for (int k = 0; k < K; ++k) result.of[k] += place * strides[k][d];
    index = next;
  }
  return result;
}

inline int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace flambeau::cuda
