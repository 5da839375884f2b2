#pragma once
// Launches a pointwise operator's cell over device arrays: 16 bytes a thread where every array is
// contiguous and aligned, else element by element through offsets.
//
// A Cell has Value (compute type), Out, kOperands and  static Out apply(const Value* in, const
// void* params).
#include "aten/cuda/cell.cuh"

namespace flambeau::cuda {

// Array 0 is the output. An operand without data is the number in its slot of `immediates`.
struct PointwiseLaunch {
  int64_t numel;
  int ndim;
  bool contiguous;                // row-major, the same sizes: the geometry below is not read
  int64_t sizes[kMaxLaunchDims];  // innermost first
  int64_t strides[kMaxOperands + 1][kMaxLaunchDims];  // in elements
  char* data[kMaxOperands + 1];
  alignas(16) char immediates[16 * (kMaxOperands + 1)];  // compute-type values
  alignas(16) char params[16 * kMaxParams];
};
using PointwiseLauncher = cudaError_t (*)(const PointwiseLaunch& launch, cudaStream_t stream);

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T items[kWidth];
};

// Elements per thread: 16-byte loads, at most four elements.
template <typename Storage>
inline constexpr int kPackWidth = sizeof(Storage) >= 16  ? 1
                                  : sizeof(Storage) == 8 ? 2
                                                         : 4;

template <typename Cell, typename Storage>
FLAMBEAU_HOST_DEVICE inline void apply_strided(const PointwiseLaunch& launch, int64_t index) {
  using Value = typename Cell::Value;
  using Out = typename OutStorage<Cell, Storage>::type;
  constexpr int kArrays = Cell::kOperands + 1;
  Offsets<kArrays> at;
  if (launch.contiguous) {
    for (int k = 0; k < kArrays; ++k) at.of[k] = index;
  } else {
    at = offsets<kArrays>(index, launch.ndim, launch.sizes, launch.strides);
  }
  Value in[kArrays];
#pragma unroll
  for (int k = 1; k < kArrays; ++k) {
    in[k - 1] = launch.data[k]
                    ? load_as<Value>(reinterpret_cast<const Storage*>(launch.data[k])[at.of[k]])
                    : param<Value>(launch.immediates, k);
  }
  reinterpret_cast<Out*>(launch.data[0])[at.of[0]] = stored_as<Out>(Cell::apply(in, launch.params));
}

template <typename Cell, typename Storage>
FLAMBEAU_HOST_DEVICE inline void apply_packed(const PointwiseLaunch& launch, int64_t first) {
  using Value = typename Cell::Value;
  using Out = typename OutStorage<Cell, Storage>::type;
  constexpr int kWidth = kPackWidth<Storage>;
  Value in[kWidth][Cell::kOperands + 1];
#pragma unroll
  for (int k = 1; k <= Cell::kOperands; ++k) {
    if (launch.data[k]) {
      const auto pack = *reinterpret_cast<const Pack<Storage, kWidth>*>(
          launch.data[k] + first * static_cast<int64_t>(sizeof(Storage)));
#pragma unroll
      for (int l = 0; l < kWidth; ++l) in[l][k - 1] = load_as<Value>(pack.items[l]);
    } else {
      const Value number = param<Value>(launch.immediates, k);
#pragma unroll
      for (int l = 0; l < kWidth; ++l) in[l][k - 1] = number;
    }
  }
  Pack<Out, kWidth> result;
#pragma unroll
  for (int l = 0; l < kWidth; ++l)
    result.items[l] = stored_as<Out>(Cell::apply(in[l], launch.params));
  *reinterpret_cast<Pack<Out, kWidth>*>(launch.data[0] +
                                        first * static_cast<int64_t>(sizeof(Out))) = result;
}

template <typename Cell, typename Storage>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(const __grid_constant__ PointwiseLaunch launch) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index < launch.numel) apply_strided<Cell, Storage>(launch, index);
}

template <typename Cell, typename Storage>
__global__ void __launch_bounds__(kThreads)
    packed_kernel(const __grid_constant__ PointwiseLaunch launch) {
  constexpr int kWidth = kPackWidth<Storage>;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (first + kWidth <= launch.numel) {
    apply_packed<Cell, Storage>(launch, first);
  } else {
    for (int64_t i = first; i < launch.numel; ++i) apply_strided<Cell, Storage>(launch, i);
  }
}

inline bool is_aligned(const PointwiseLaunch& launch, int arrays) {
  uintptr_t bits = 0;
  for (int k = 0; k < arrays; ++k) bits |= reinterpret_cast<uintptr_t>(launch.data[k]);
  return bits % 16 == 0;
}

template <typename Cell, typename Storage>
cudaError_t launch_pointwise(const PointwiseLaunch& launch, cudaStream_t stream) {
  if (launch.numel == 0) return cudaSuccess;
  if (launch.contiguous && is_aligned(launch, Cell::kOperands + 1)) {
    const auto blocks =
        static_cast<unsigned>(ceil_divide(launch.numel, kThreads * kPackWidth<Storage>));
    packed_kernel<Cell, Storage><<<blocks, kThreads, 0, stream>>>(launch);
  } else {
    const auto blocks = static_cast<unsigned>(ceil_divide(launch.numel, kThreads));
    strided_kernel<Cell, Storage><<<blocks, kThreads, 0, stream>>>(launch);
  }
  return cudaGetLastError();
}

}  // namespace flambeau::cuda
