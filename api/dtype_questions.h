#pragma once
// What C++ programs ask about dtypes, and the types that kernels compute with.
#include <type_traits>

#include "api/check.h"
#include "api/types.h"

namespace flambeau::api {

inline bool isSignedType(c10::ScalarType t) { return c10::is_signed_type(t); }
inline bool isReducedFloatingType(c10::ScalarType t) { return c10::is_reduced_floating_type(t); }
// Whether a result of dtype `from` may be stored as `to`.
inline bool canCast(c10::ScalarType from, c10::ScalarType to) { return c10::can_cast(from, to); }
inline c10::ScalarType promoteTypes(c10::ScalarType a, c10::ScalarType b) {
  return c10::promote_types(a, b);
}
inline c10::ScalarType toComplexType(c10::ScalarType t) { return c10::to_complex_type(t); }
inline c10::ScalarType toRealValueType(c10::ScalarType t) { return c10::to_real_type(t); }

// Half types are computed as float.
template <typename T>
struct OpMathType {
  using type = std::conditional_t<std::is_same_v<T, c10::cpp_type_t<c10::ScalarType::Float16>> ||
                                      std::is_same_v<T, c10::cpp_type_t<c10::ScalarType::BFloat16>>,
                                  float, T>;
};
template <typename T>
using opmath_type = typename OpMathType<T>::type;
inline c10::ScalarType toOpMathType(c10::ScalarType t) {
  return c10::is_reduced_floating_type(t) ? kFloat.value : t;
}

}  // namespace flambeau::api

#define FLAMBEAU_CHECK_PAIR(a, op, b)                                                          \
  TORCH_CHECK((a)op(b), "Check failed: " #a " " #op " " #b ": expected it to hold, got ", (a), \
              " and ", (b))
#define TORCH_CHECK_EQ(a, b) FLAMBEAU_CHECK_PAIR(a, ==, b)
#define TORCH_CHECK_NE(a, b) FLAMBEAU_CHECK_PAIR(a, !=, b)
#define TORCH_CHECK_LT(a, b) FLAMBEAU_CHECK_PAIR(a, <, b)
#define TORCH_CHECK_LE(a, b) FLAMBEAU_CHECK_PAIR(a, <=, b)
#define TORCH_CHECK_GT(a, b) FLAMBEAU_CHECK_PAIR(a, >, b)
#define TORCH_CHECK_GE(a, b) FLAMBEAU_CHECK_PAIR(a, >=, b)
