#include "aten/core/promotion.h"

namespace flambeau {
namespace {

// `lower` has the lower priority: it counts only if its category is the higher one.
ScalarType combine(ScalarType higher, ScalarType lower) {
  if (higher == ScalarType::Undefined) return lower;
  if (is_complex_type(higher)) return higher;
  if (is_floating_type(higher)) return is_complex_type(lower) ? to_complex_type(higher) : higher;
  if (is_complex_type(lower) && is_wide_unsigned_type(higher)) return lower;
  if (higher == ScalarType::Bool || is_floating_type(lower) || is_complex_type(lower)) {
    return promote_types(higher, lower);
  }
  return higher;
}

}  // namespace

ScalarType TypePromotion::dtype_of_number(ScalarType held) {
  if (is_complex_type(held)) return to_complex_type(default_dtype());
  return is_floating_type(held) ? default_dtype() : held;
}

ScalarType TypePromotion::result() const {
  return combine(dimensioned_, combine(zero_dim_, number_));
}

}  // namespace flambeau
