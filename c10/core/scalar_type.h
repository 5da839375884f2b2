#pragma once
// Element types: sizes, categories, names, promotion and the map to C++ types.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "c10/core/complex.h"
#include "c10/core/float8.h"
#include "c10/core/half.h"
#include "c10/core/scalar_type_id.h"
#include "c10/core/stored_bool.h"

namespace flambeau::c10 {

constexpr size_t element_size(ScalarType t) {
  constexpr uint8_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16,
                                8, 2, 4, 4, 1, 1, 1, 1, 1, 1, 0};
  return kSizes[index_of(t)];
}
constexpr bool is_complex_type(ScalarType t) {
  return t == ScalarType::Complex64 || t == ScalarType::Complex128 || t == ScalarType::Complex32;
}
// Floating types of one byte: they promote with their own type only.
constexpr bool is_byte_floating_type(ScalarType t) {
  return t >= ScalarType::Float8E5M2 && t <= ScalarType::Float4E2M1FNx2;
}
constexpr bool is_floating_type(ScalarType t) {
  return (t >= ScalarType::Float16 && t <= ScalarType::Float64) || is_byte_floating_type(t);
}
// Unsigned integers of more than a byte: they promote with their own kind and with floats only.
constexpr bool is_wide_unsigned_type(ScalarType t) {
  return t >= ScalarType::UInt64 && t <= ScalarType::UInt32;
}
// bool counts as integral only where asked.
constexpr bool is_integral_type(ScalarType t, bool include_bool) {
  return (t >= ScalarType::UInt8 && t <= ScalarType::Int64) || is_wide_unsigned_type(t) ||
         (include_bool && t == ScalarType::Bool);
}
constexpr bool is_signed_type(ScalarType t) {
  return t != ScalarType::Bool && t != ScalarType::UInt8 && !is_wide_unsigned_type(t) &&
         t != ScalarType::Float8E8M0FNU;
}
constexpr bool is_reduced_floating_type(ScalarType t) {
  return t == ScalarType::Float16 || t == ScalarType::BFloat16;
}
constexpr bool is_differentiable_type(ScalarType t) {
  return is_floating_type(t) || is_complex_type(t);
}
// The type of the real part (complex64 -> float32), the type itself when real.
constexpr ScalarType to_real_type(ScalarType t) {
  if (t == ScalarType::Complex64) return ScalarType::Float32;
  if (t == ScalarType::Complex32) return ScalarType::Float16;
  return t == ScalarType::Complex128 ? ScalarType::Float64 : t;
}
// RuntimeError: PyTorch's words for a type of one byte, which has no complex counterpart.
[[noreturn]] void fail_complex_of(ScalarType t);
constexpr ScalarType to_complex_type(ScalarType t) {
  if (is_byte_floating_type(t)) fail_complex_of(t);
  if (t == ScalarType::Float64 || t == ScalarType::Complex128) return ScalarType::Complex128;
  if (t == ScalarType::Float16 || t == ScalarType::Complex32) return ScalarType::Complex32;
  return ScalarType::Complex64;
}
// The type in which kernels compute: one that holds every value of t.
constexpr ScalarType compute_type(ScalarType t) {
  switch (t) {
    case ScalarType::Float16:
    case ScalarType::BFloat16:
    case ScalarType::Float8E5M2:
    case ScalarType::Float8E4M3FN:
    case ScalarType::Float8E5M2FNUZ:
    case ScalarType::Float8E4M3FNUZ:
    case ScalarType::Float8E8M0FNU:
      return ScalarType::Float32;
    case ScalarType::UInt16:
      return ScalarType::Int32;
    case ScalarType::UInt32:
      return ScalarType::Int64;
    case ScalarType::Complex32:
      return ScalarType::Complex64;
    default:
      return t;
  }
}

// "float32"; the binding adds the prefix "flambeau.".
const char* name_of(ScalarType t);
// "Float": the name in the messages that users of PyTorch match on.
const char* pytorch_name_of(ScalarType t);
// RuntimeError for a wide unsigned type and another type of integers or a complex one, and for a
// floating type of one byte and any other.
ScalarType promote_types(ScalarType a, ScalarType b);
// Whether a result of type `from` may be written into a tensor of type `to` (no category is lost).
bool can_cast(ScalarType from, ScalarType to);

inline void append_text(std::string& out, ScalarType t) { out.append(name_of(t)); }

// Process-wide default for floating results; float32 until changed.
ScalarType default_dtype();
void set_default_dtype(ScalarType t);
inline ScalarType default_complex_dtype() { return to_complex_type(default_dtype()); }

template <ScalarType>
struct CppTypeOf;
template <typename>
struct ScalarTypeOf;

#define FLAMBEAU_MAP_TYPE(S, T)                        \
  template <>                                          \
  struct CppTypeOf<ScalarType::S> {                    \
    using type = T;                                    \
  };                                                   \
  template <>                                          \
  struct ScalarTypeOf<T> {                             \
    static constexpr ScalarType value = ScalarType::S; \
  };
FLAMBEAU_MAP_TYPE(Bool, StoredBool)
FLAMBEAU_MAP_TYPE(UInt8, uint8_t)
FLAMBEAU_MAP_TYPE(Int8, int8_t)
FLAMBEAU_MAP_TYPE(Int16, int16_t)
FLAMBEAU_MAP_TYPE(Int32, int32_t)
FLAMBEAU_MAP_TYPE(Int64, int64_t)
FLAMBEAU_MAP_TYPE(Float16, Half)
FLAMBEAU_MAP_TYPE(BFloat16, BFloat16)
FLAMBEAU_MAP_TYPE(Float32, float)
FLAMBEAU_MAP_TYPE(Float64, double)
FLAMBEAU_MAP_TYPE(Complex64, complex<float>)
FLAMBEAU_MAP_TYPE(Complex128, complex<double>)
FLAMBEAU_MAP_TYPE(UInt64, uint64_t)
FLAMBEAU_MAP_TYPE(UInt16, uint16_t)
FLAMBEAU_MAP_TYPE(UInt32, uint32_t)
FLAMBEAU_MAP_TYPE(Complex32, complex<Half>)
FLAMBEAU_MAP_TYPE(Float8E5M2, Float8E5M2)
FLAMBEAU_MAP_TYPE(Float8E4M3FN, Float8E4M3FN)
FLAMBEAU_MAP_TYPE(Float8E5M2FNUZ, Float8E5M2FNUZ)
FLAMBEAU_MAP_TYPE(Float8E4M3FNUZ, Float8E4M3FNUZ)
FLAMBEAU_MAP_TYPE(Float8E8M0FNU, Float8E8M0FNU)
FLAMBEAU_MAP_TYPE(Float4E2M1FNx2, Float4E2M1FNx2)
#undef FLAMBEAU_MAP_TYPE
template <>
struct ScalarTypeOf<bool> {
  static constexpr ScalarType value = ScalarType::Bool;
};

template <ScalarType S>
using cpp_type_t = typename CppTypeOf<S>::type;
template <typename T>
inline constexpr ScalarType scalar_type_of = ScalarTypeOf<T>::value;

// Accumulator for sums of T: wide enough that a long sum keeps T's precision.
template <typename T>
struct AccumulateType {
  static constexpr bool kSmall = is_bool<T> || (std::is_integral_v<T> && sizeof(T) < 8);
  using type = std::conditional_t<kSmall, int64_t, T>;
};
template <>
struct AccumulateType<Half> {
  using type = float;
};
template <>
struct AccumulateType<BFloat16> {
  using type = float;
};
template <typename T>
using accumulate_t = typename AccumulateType<T>::type;

}  // namespace flambeau::c10

template <>
class std::numeric_limits<flambeau::c10::StoredBool> : public std::numeric_limits<bool> {};
