#include "c10/core/scalar_type.h"

#include <atomic>

#include "c10/core/check.h"
#include "c10/core/dtype_dispatch.h"

namespace flambeau::c10 {
namespace {

std::atomic<ScalarType> default_type{ScalarType::Float32};

ScalarType promote_integers(ScalarType a, ScalarType b) {
  if (a == ScalarType::Bool) return b;
  if (b == ScalarType::Bool) return a;
  // uint8 does not fit into int8: both go to int16. Every wider type holds every narrower one.
  if (a != b && (a == ScalarType::UInt8 || b == ScalarType::UInt8) &&
      (a == ScalarType::Int8 || b == ScalarType::Int8)) {
    return ScalarType::Int16;
  }
  return a > b ? a : b;
}

// The type of the parts of a complex result: integers do not take part.
ScalarType part_type(ScalarType t) {
  return is_integral_type(t, true) ? ScalarType::Float16 : to_real_type(t);
}

ScalarType promote_floats(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (is_reduced_floating_type(a) && is_reduced_floating_type(b)) return ScalarType::Float32;
  return a > b ? a : b;
}

// bool as well, unlike in PyTorch: its values are values of each of them.
bool joins_wide_unsigned(ScalarType t) { return is_floating_type(t) || t == ScalarType::Bool; }

[[noreturn]] void fail_promotion(ScalarType a, ScalarType b) {
  fail(ErrorKind::Runtime, "Promotion of uint16, uint32 and uint64 with other integers is not ",
       "defined: expected one dtype, got ", a, " and ", b, "; cast one of them");
}

[[noreturn]] void fail_byte_promotion(ScalarType a, ScalarType b) {
  fail(ErrorKind::Runtime, "Promotion for Float8 Types is not supported: expected one dtype, got ",
       pytorch_name_of(a), " and ", pytorch_name_of(b), "; cast one of them");
}

// The order of lossless categories: bool < integer < real < complex.
int category(ScalarType t) {
  if (t == ScalarType::Bool) return 0;
  if (is_integral_type(t, false)) return 1;
  return is_floating_type(t) ? 2 : 3;
}

}  // namespace

const char* name_of(ScalarType t) {
  static constexpr const char* kNames[] = {"bool",
                                           "uint8",
                                           "int8",
                                           "int16",
                                           "int32",
                                           "int64",
                                           "float16",
                                           "bfloat16",
                                           "float32",
                                           "float64",
                                           "complex64",
                                           "complex128",
                                           "uint64",
                                           "uint16",
                                           "uint32",
                                           "complex32",
                                           "float8_e5m2",
                                           "float8_e4m3fn",
                                           "float8_e5m2fnuz",
                                           "float8_e4m3fnuz",
                                           "float8_e8m0fnu",
                                           "float4_e2m1fn_x2",
                                           "undefined"};
  return kNames[index_of(t)];
}

const char* pytorch_name_of(ScalarType t) {
  static constexpr const char* kNames[] = {"Bool",
                                           "Byte",
                                           "Char",
                                           "Short",
                                           "Int",
                                           "Long",
                                           "Half",
                                           "BFloat16",
                                           "Float",
                                           "Double",
                                           "ComplexFloat",
                                           "ComplexDouble",
                                           "UInt64",
                                           "UInt16",
                                           "UInt32",
                                           "ComplexHalf",
                                           "Float8_e5m2",
                                           "Float8_e4m3fn",
                                           "Float8_e5m2fnuz",
                                           "Float8_e4m3fnuz",
                                           "Float8_e8m0fnu",
                                           "Float4_e2m1fn_x2",
                                           "Undefined"};
  return kNames[index_of(t)];
}

ScalarType promote_types(ScalarType a, ScalarType b) {
  if (a == b || b == ScalarType::Undefined) return a;
  if (a == ScalarType::Undefined) return b;
  if (is_byte_floating_type(a) || is_byte_floating_type(b)) fail_byte_promotion(a, b);
  if (is_wide_unsigned_type(a) && !joins_wide_unsigned(b)) fail_promotion(a, b);
  if (is_wide_unsigned_type(b) && !joins_wide_unsigned(a)) fail_promotion(a, b);
  if (is_complex_type(a) || is_complex_type(b)) {
    return to_complex_type(promote_floats(part_type(a), part_type(b)));
  }
  if (is_floating_type(a) && is_floating_type(b)) return promote_floats(a, b);
  if (is_floating_type(a)) return a;
  if (is_floating_type(b)) return b;
  return promote_integers(a, b);
}

bool can_cast(ScalarType from, ScalarType to) { return category(from) <= category(to); }

ScalarType default_dtype() { return default_type.load(std::memory_order_relaxed); }

void set_default_dtype(ScalarType t) {
  check_type(is_floating_type(t) && !is_byte_floating_type(t),
             "set_default_dtype: expected a floating dtype of two bytes or more, got ", t);
  default_type.store(t, std::memory_order_relaxed);
}

void fail_complex_of(ScalarType t) {
  fail(ErrorKind::Runtime, "Unknown Complex ScalarType for ", pytorch_name_of(t),
       ": expected a floating type of two bytes or more, got ", t);
}

void fail_dtype(const char* op, ScalarType got) {
  fail(ErrorKind::NotImplemented, "\"", op, "\" not implemented for '", pytorch_name_of(got), "'");
}

}  // namespace flambeau::c10
