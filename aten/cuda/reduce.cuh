#pragma once
// Launches a reduction over device arrays. A block is `lanes` x `rows` threads: the lanes share one
// result and meet in a tree in shared memory, rows take neighbouring results. With few results and
// many elements the elements are split over grid.y, and a second kernel merges the partial results:
// the order of combination depends on the sizes alone, so results are reproducible.
//
// A Fiber has Value, Acc, Out, kOperands (let arrays last), kLet, identity(), combine(a, b),
// map(const Value* in, params) and finish(acc, const Value* kept, params, count).
#include "aten/cuda/cell.cuh"

namespace flambeau::cuda {

struct ReduceLaunch {
  int64_t outputs;  // results, row-major in `out`
  int64_t count;    // elements of each
  int kept_ndim, reduced_ndim;
  int64_t kept_sizes[kMaxLaunchDims], reduced_sizes[kMaxLaunchDims];  // innermost first
  int64_t kept_strides[kMaxOperands][kMaxLaunchDims];                 // in elements
  int64_t reduced_strides[kMaxOperands][kMaxLaunchDims];              // 0 for let arrays
  const char* data[kMaxOperands];
  char* out;
  char* workspace;  // reduce_workspace() bytes, aligned to 16
  alignas(16) char params[16 * kMaxParams];
};
using ReduceLauncher = cudaError_t (*)(const ReduceLaunch& launch, cudaStream_t stream);

struct ReduceGeometry {
  int lanes, rows;
  int64_t blocks, splits, per_split;
};

inline ReduceGeometry reduce_geometry(const ReduceLaunch& launch) {
  // Enough blocks to fill the largest devices several times over.
  constexpr int64_t kWantedBlocks = 1024;
  constexpr int64_t kLeastPerLane = 16;
  ReduceGeometry g;
  const bool rows_adjoin = launch.outputs >= 32 && launch.kept_ndim > 0 &&
                           launch.kept_strides[0][0] == 1 &&
                           (launch.reduced_ndim == 0 || launch.reduced_strides[0][0] != 1);
  g.lanes = rows_adjoin ? 1 : launch.count >= 1024 ? kThreads : launch.count >= 16 ? 32 : 1;
  g.rows = kThreads / g.lanes;
  g.blocks = ceil_divide(launch.outputs, g.rows);
  const int64_t most = ceil_divide(launch.count, g.lanes * kLeastPerLane);
  int64_t splits = ceil_divide(kWantedBlocks, g.blocks);
  splits = splits < most ? splits : most;
  g.splits = splits < 1 ? 1 : splits > 256 ? 256 : splits;
  g.per_split = ceil_divide(launch.count, g.splits);
  return g;
}

// Bytes of workspace for partial results; 16 covers every accumulator.
inline int64_t reduce_workspace(const ReduceLaunch& launch) {
  const ReduceGeometry g = reduce_geometry(launch);
  return g.splits > 1 ? 16 * g.splits * launch.outputs : 0;
}

template <typename Fiber, typename Storage>
FLAMBEAU_HOST_DEVICE inline typename Fiber::Value element(const ReduceLaunch& launch, int k,
                                                          int64_t at) {
  return load_as<typename Fiber::Value>(reinterpret_cast<const Storage*>(launch.data[k])[at]);
}

// The combination of elements begin, begin + step, ... below end of one result.
template <typename Fiber, typename Storage>
FLAMBEAU_HOST_DEVICE inline typename Fiber::Acc reduce_part(const ReduceLaunch& launch,
                                                            int64_t output, int64_t begin,
                                                            int64_t end, int64_t step) {
  using Value = typename Fiber::Value;
  constexpr int K = Fiber::kOperands;
  const Offsets<K> base =
      offsets<K>(output, launch.kept_ndim, launch.kept_sizes, launch.kept_strides);
  auto acc = Fiber::identity();
  for (int64_t i = begin; i < end; i += step) {
    const Offsets<K> at =
        offsets<K>(i, launch.reduced_ndim, launch.reduced_sizes, launch.reduced_strides);
    Value in[K];
#pragma unroll
    for (int k = 0; k < K; ++k) in[k] = element<Fiber, Storage>(launch, k, base.of[k] + at.of[k]);
    acc = Fiber::combine(acc, Fiber::map(in, launch.params));
  }
  return acc;
}

template <typename Fiber, typename Storage>
FLAMBEAU_HOST_DEVICE inline void finish_one(const ReduceLaunch& launch, int64_t output,
                                            typename Fiber::Acc acc) {
  using Out = typename OutStorage<Fiber, Storage>::type;
  constexpr int K = Fiber::kOperands;
  typename Fiber::Value kept[Fiber::kLet + 1];
  if constexpr (Fiber::kLet > 0) {
    const Offsets<K> at =
        offsets<K>(output, launch.kept_ndim, launch.kept_sizes, launch.kept_strides);
#pragma unroll
    for (int k = 0; k < Fiber::kLet; ++k) {
      constexpr int kFirst = K - Fiber::kLet;
      kept[k] = element<Fiber, Storage>(launch, kFirst + k, at.of[kFirst + k]);
    }
  }
  reinterpret_cast<Out*>(launch.out)[output] =
      stored_as<Out>(Fiber::finish(acc, kept, launch.params, launch.count));
}

template <typename Fiber, typename Storage>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const __grid_constant__ ReduceLaunch launch, int64_t per_split) {
  using Acc = typename Fiber::Acc;
  // Raw bytes: shared arrays take no type with a constructor.
  __shared__ alignas(16) char shared[kThreads * sizeof(Acc)];
  Acc* const partial = reinterpret_cast<Acc*>(shared);
  const int lane = threadIdx.x, lanes = blockDim.x;
  const int thread = threadIdx.y * lanes + lane;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t begin = blockIdx.y * per_split;
  const int64_t end = begin + per_split < launch.count ? begin + per_split : launch.count;
  Acc acc = Fiber::identity();
  if (output < launch.outputs)
    acc = reduce_part<Fiber, Storage>(launch, output, begin + lane, end, lanes);
  partial[thread] = acc;
  for (int width = lanes / 2; width > 0; width /= 2) {
    __syncthreads();
    if (lane < width) partial[thread] = Fiber::combine(partial[thread], partial[thread + width]);
  }
  if (lane != 0 || output >= launch.outputs) return;
  if (gridDim.y == 1) {
    finish_one<Fiber, Storage>(launch, output, partial[thread]);
  } else {
    reinterpret_cast<Acc*>(launch.workspace)[output * gridDim.y + blockIdx.y] = partial[thread];
  }
}

template <typename Fiber, typename Storage>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const __grid_constant__ ReduceLaunch launch, int64_t splits) {
  using Acc = typename Fiber::Acc;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (output >= launch.outputs) return;
  const Acc* const partial = reinterpret_cast<const Acc*>(launch.workspace) + output * splits;
  Acc acc = Fiber::identity();
  for (int64_t i = 0; i < splits; ++i) acc = Fiber::combine(acc, partial[i]);
  finish_one<Fiber, Storage>(launch, output, acc);
}

template <typename Fiber, typename Storage>
cudaError_t launch_reduce(const ReduceLaunch& launch, cudaStream_t stream) {
  if (launch.outputs == 0) return cudaSuccess;
  const ReduceGeometry g = reduce_geometry(launch);
  const dim3 grid(static_cast<unsigned>(g.blocks), static_cast<unsigned>(g.splits));
  const dim3 block(static_cast<unsigned>(g.lanes), static_cast<unsigned>(g.rows));
  reduce_kernel<Fiber, Storage><<<grid, block, 0, stream>>>(launch, g.per_split);
  if (g.splits > 1) {
    const auto blocks = static_cast<unsigned>(ceil_divide(launch.outputs, kThreads));
    merge_kernel<Fiber, Storage><<<blocks, kThreads, 0, stream>>>(launch, g.splits);
  }
  return cudaGetLastError();
}

}  // namespace flambeau::cuda
