#pragma once
// Loops as the generator would write them, for a few operators, so that drivers are tested alone.
#include "aten/core/pointwise_op.h"
#include "aten/core/reduce_op.h"

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

#define SAMPLE_TABLE(name, loop)                                                                  \
  inline const PointwiseLoop name[kNumScalarTypes] = {                                            \
      nullptr,       loop<uint8_t>, loop<int8_t>, loop<int16_t>, loop<int32_t>, loop<int64_t>,    \
      nullptr,       nullptr,       loop<float>,  loop<double>,  nullptr,       nullptr}
SAMPLE_TABLE(add_table, add_loop);
SAMPLE_TABLE(less_table, less_loop);
SAMPLE_TABLE(divide_table, divide_loop);
#undef SAMPLE_TABLE

inline PointwiseOp with_table(PointwiseOp op, const PointwiseLoop* table) {
  for (int i = 0; i < kNumIsas; ++i) op.loops[i] = table;
  return op;
}
inline constexpr uint16_t kRealTypes = 0x3fe;  // integers and floats, half types included
inline const PointwiseOp kAdd = with_table({"add", DTypeRule::Promote, kRealTypes, 2, 1, {}}, add_table);
inline const PointwiseOp kLess = with_table({"lt", DTypeRule::Compare, kRealTypes, 2, 0, {}}, less_table);
inline const PointwiseOp kDivide =
    with_table({"floor_divide", DTypeRule::Promote, kRealTypes, 2, 0, {}}, divide_table);

}  // namespace flambeau::testing
