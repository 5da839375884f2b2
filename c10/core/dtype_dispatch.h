#pragma once
// Calls a generic lambda with the C++ type of a dtype: dispatch_floating(t, "op", [&]<typename T>()
// {...}). Each lambda is instantiated once per listed type, so list no more than the kernel
// supports.
#include "c10/core/check.h"
#include "c10/core/scalar_type.h"

namespace flambeau::c10 {

[[noreturn]] void fail_dtype(const char* op, ScalarType got);

template <ScalarType... Types, typename F>
decltype(auto) dispatch_types(ScalarType t, const char* op, F&& f) {
  using Result = decltype(f.template operator()<float>());
  if constexpr (std::is_void_v<Result>) {
    const bool hit =
        ((t == Types ? (f.template operator()<cpp_type_t<Types>>(), true) : false) || ...);
    if (!hit) fail_dtype(op, t);
  } else {
    Result result{};
    const bool hit =
        ((t == Types ? (result = f.template operator()<cpp_type_t<Types>>(), true) : false) || ...);
    if (!hit) fail_dtype(op, t);
    return result;
  }
}

template <typename F>
decltype(auto) dispatch_floating(ScalarType t, const char* op, F&& f) {
  return dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                        ScalarType::BFloat16>(t, op, static_cast<F&&>(f));
}
template <typename F>
decltype(auto) dispatch_floating_complex(ScalarType t, const char* op, F&& f) {
  return dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                        ScalarType::BFloat16, ScalarType::Complex64, ScalarType::Complex128>(
      t, op, static_cast<F&&>(f));
}
template <typename F>
decltype(auto) dispatch_integral(ScalarType t, const char* op, F&& f) {
  return dispatch_types<ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16, ScalarType::Int32,
                        ScalarType::Int64, ScalarType::UInt16, ScalarType::UInt32,
                        ScalarType::UInt64>(t, op, static_cast<F&&>(f));
}
// Real numbers and bool: everything that has an order.
template <typename F>
decltype(auto) dispatch_ordered(ScalarType t, const char* op, F&& f) {
  return dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                        ScalarType::BFloat16, ScalarType::UInt8, ScalarType::Int8,
                        ScalarType::Int16, ScalarType::Int32, ScalarType::Int64, ScalarType::UInt16,
                        ScalarType::UInt32, ScalarType::UInt64, ScalarType::Bool>(
      t, op, static_cast<F&&>(f));
}
template <typename F>
decltype(auto) dispatch_all(ScalarType t, const char* op, F&& f) {
  return dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                        ScalarType::BFloat16, ScalarType::UInt8, ScalarType::Int8,
                        ScalarType::Int16, ScalarType::Int32, ScalarType::Int64, ScalarType::UInt16,
                        ScalarType::UInt32, ScalarType::UInt64, ScalarType::Bool,
                        ScalarType::Complex64, ScalarType::Complex128>(t, op, static_cast<F&&>(f));
}
// With complex32 and the floating types of one byte as well, which have no arithmetic of their own:
// for kernels that convert or compare.
template <typename F>
decltype(auto) dispatch_stored(ScalarType t, const char* op, F&& f) {
  if (t < ScalarType::Complex32) return dispatch_all(t, op, static_cast<F&&>(f));
  return dispatch_types<ScalarType::Complex32, ScalarType::Float8E5M2, ScalarType::Float8E4M3FN,
                        ScalarType::Float8E5M2FNUZ, ScalarType::Float8E4M3FNUZ,
                        ScalarType::Float8E8M0FNU>(t, op, static_cast<F&&>(f));
}

// An element as bytes only, for kernels that move and never compute: one instance per size.
struct alignas(16) Opaque16 {
  uint64_t words[2];
};
template <typename F>
decltype(auto) dispatch_by_size(size_t bytes, const char* op, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<Opaque16>();
    default:
      fail(ErrorKind::Runtime, op, ": unsupported element size ", bytes);
  }
}

}  // namespace flambeau::c10
