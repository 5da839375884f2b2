#pragma once
// Loops as the generator would write them, for a few operators, so that drivers are tested alone.
#include "aten/core/pointwise_op.h"
#include "aten/core/reduce_op.h"
#include "aten/cpu/loop_support.h"

namespace flambeau::testing {

template <typename T>
uint32_t add_loop(int64_t n, char* const* data, const void* params) {
  T* out = reinterpret_cast<T*>(data[0]);
  const T* a = reinterpret_cast<const T*>(data[1]);
  const T* b = reinterpret_cast<const T*>(data[2]);
  const T alpha = *static_cast<const T*>(params);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(a[i] + alpha * b[i]);
  return 0;
}
template <typename T>
uint32_t less_loop(int64_t n, char* const* data, const void*) {
  bool* out = reinterpret_cast<bool*>(data[0]);
  const T* a = reinterpret_cast<const T*>(data[1]);
  const T* b = reinterpret_cast<const T*>(data[2]);
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] < b[i];
  return 0;
}
template <typename T>
uint32_t divide_loop(int64_t n, char* const* data, const void*) {
  T* out = reinterpret_cast<T*>(data[0]);
  const T* a = reinterpret_cast<const T*>(data[1]);
  const T* b = reinterpret_cast<const T*>(data[2]);
  uint32_t errors = 0;
  for (int64_t i = 0; i < n; ++i) {
    errors |= b[i] == T(0) ? kIntegerDivisionByZero : 0;
    out[i] = b[i] == T(0) ? T(0) : static_cast<T>(a[i] / b[i]);
  }
  return errors;
}

#define SAMPLE_TABLE(name, loop)                                                         \
  inline const PointwiseLoop name[kNumComputeTypes] = {                                  \
      nullptr, loop<uint8_t>, loop<int8_t>, loop<int16_t>, loop<int32_t>, loop<int64_t>, \
      nullptr, nullptr,       loop<float>,  loop<double>,  nullptr,       nullptr}
SAMPLE_TABLE(add_table, add_loop);
SAMPLE_TABLE(less_table, less_loop);
SAMPLE_TABLE(divide_table, divide_loop);
#undef SAMPLE_TABLE

inline PointwiseOp with_table(PointwiseOp op, const PointwiseLoop* table) {
  op.loops = LoopTable<PointwiseLoop>(table);
  return op;
}
inline constexpr uint16_t kRealTypes = 0x3fe;  // integers and floats, half types included
inline const PointwiseOp kAdd =
    with_table({"add", DTypeRule::Promote, kRealTypes, 2, 1, 0, {}}, add_table);
inline const PointwiseOp kLess =
    with_table({"lt", DTypeRule::Compare, kRealTypes, 2, 0, 0, {}}, less_table);
inline const PointwiseOp kDivide =
    with_table({"floor_divide", DTypeRule::Promote, kRealTypes, 2, 0, 0, {}}, divide_table);

// sum of (self - center)^2 / count, with `center` a let tensor.
template <typename T>
struct SpreadFiber {
  using Value = T;
  using Acc = T;
  using Element = T;
  using Out = T;
  static Acc identity() { return Acc(0); }
  static Acc combine(Acc a, Acc b) { return static_cast<Acc>(a + b); }
  static Acc map(char* const* in, int64_t i, const void*) {
    const T d = reinterpret_cast<const T*>(in[0])[i] - reinterpret_cast<const T*>(in[1])[i];
    return d * d;
  }
  static Out finish(Acc acc, char* const* kept, int64_t i, const void*, int64_t count) {
    return acc / static_cast<T>(count) + reinterpret_cast<const T*>(kept[0])[i];
  }
};
template <typename T>
struct SumFiber {
  using Value = T;
  using Acc = T;
  using Element = T;
  using Out = T;
  static Acc identity() { return Acc(0); }
  static Acc combine(Acc a, Acc b) { return static_cast<Acc>(a + b); }
  static Acc map(char* const* in, int64_t i, const void*) {
    return reinterpret_cast<const T*>(in[0])[i];
  }
  static Out finish(Acc acc, char* const*, int64_t, const void*, int64_t) { return acc; }
};
template <typename T>
struct MaxFiber : SumFiber<T> {
  static T identity() { return loops::lowest<T>(); }
  static T combine(T a, T b) { return vec::max(a, b); }
};

inline const ReduceLoops sum_table[kNumComputeTypes] = {{},
                                                        {},
                                                        {},
                                                        {},
                                                        {},
                                                        loops::reduce_loops<SumFiber<int64_t>>(),
                                                        {},
                                                        {},
                                                        loops::reduce_loops<SumFiber<float>>(),
                                                        loops::reduce_loops<SumFiber<double>>(),
                                                        {},
                                                        {}};
inline const ReduceLoops spread_table[kNumComputeTypes] = {
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    loops::reduce_loops<SpreadFiber<float>>(),
    loops::reduce_loops<SpreadFiber<double>>(),
    {},
    {}};
inline const ReduceLoops max_table[kNumComputeTypes] = {{},
                                                        {},
                                                        {},
                                                        {},
                                                        loops::reduce_loops<MaxFiber<int32_t>>(),
                                                        {},
                                                        {},
                                                        {},
                                                        loops::reduce_loops<MaxFiber<float>>(),
                                                        loops::reduce_loops<MaxFiber<double>>(),
                                                        {},
                                                        {}};

inline ReduceOp with_table(ReduceOp op, const ReduceLoops* table) {
  op.loops = LoopTable<ReduceLoops>(table);
  const uint8_t sizes[kNumComputeTypes] = {1, 1, 1, 2, 4, 8, 4, 4, 4, 8, 8, 16, 8};
  for (int i = 0; i < kNumComputeTypes; ++i) op.acc_size[i] = sizes[i];
  return op;
}
inline const ReduceOp kSum = with_table(
    ReduceOp{"sum", DTypeRule::Promote, 0x3ff, 1, 0, 0, false, true, true, {}, {}}, sum_table);
inline const ReduceOp kSpread =
    with_table(ReduceOp{"spread", DTypeRule::Promote, 0x3c0, 2, 1, 0, false, true, false, {}, {}},
               spread_table);
inline const ReduceOp kMax = with_table(
    ReduceOp{"amax", DTypeRule::Promote, 0x3d0, 1, 0, 0, true, true, false, {}, {}}, max_table);

}  // namespace flambeau::testing
