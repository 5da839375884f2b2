#pragma once
// One number of any category: bool, integer, real or complex.
#include "c10/core/check.h"
#include "c10/core/scalar_type.h"

namespace flambeau::c10 {

class Scalar {
 public:
  enum class Tag : uint8_t { Bool, Int, UInt, Double, Complex };  // UInt: from 2^63 on

  constexpr Scalar() : Scalar(int64_t{0}) {}
  template <typename T>
    requires(std::is_arithmetic_v<T>)
  constexpr Scalar(T value) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      tag_ = Tag::Bool;
      int_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      const bool large = std::is_unsigned_v<T> && static_cast<uint64_t>(value) >> 63;
      tag_ = large ? Tag::UInt : Tag::Int;
      int_ = static_cast<int64_t>(value);
    } else {
      tag_ = Tag::Double;
      re_ = static_cast<double>(value);
    }
  }
  template <typename T>
  constexpr Scalar(complex<T> value)  // NOLINT(google-explicit-constructor)
      : re_(value.re), im_(value.im), tag_(Tag::Complex) {}
  constexpr Scalar(Half value) : Scalar(static_cast<float>(value)) {}       // NOLINT
  constexpr Scalar(StoredBool value) : Scalar(static_cast<bool>(value)) {}  // NOLINT
  constexpr Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}   // NOLINT
  template <typename T>
    requires(is_float8<T>)
  constexpr Scalar(T value) : Scalar(static_cast<float>(value)) {}  // NOLINT

  Tag tag() const { return tag_; }
  bool is_bool() const { return tag_ == Tag::Bool; }
  bool is_integral(bool include_bool) const {
    return tag_ == Tag::Int || tag_ == Tag::UInt || (include_bool && tag_ == Tag::Bool);
  }
  bool is_floating() const { return tag_ == Tag::Double; }
  bool is_complex() const { return tag_ == Tag::Complex; }
  bool is_zero() const { return is_integral(true) ? int_ == 0 : (re_ == 0 && im_ == 0); }

  // The dtype a Python number of this category has by itself (int64, default float, ...).
  ScalarType dtype() const;

  // Conversions. Real from complex fails unless the imaginary part is zero; integers that do not
  // fit fail with "value does not fit type <t> without overflow".
  template <typename T>
  T to() const;
  double to_double() const {
    if (tag_ == Tag::UInt) return static_cast<double>(static_cast<uint64_t>(int_));
    return is_integral(true) ? static_cast<double>(int_) : re_;
  }
  int64_t to_int64() const { return to<int64_t>(); }
  bool to_bool() const { return !is_zero(); }
  complex<double> to_complex() const { return {to_double(), is_complex() ? im_ : 0.0}; }
  // Writes the value as `t` at `destination` (element_size(t) bytes); wraps integers as C++ does.
  void store(ScalarType t, void* destination) const;
  static Scalar load(ScalarType t, const void* source);

  Scalar operator-() const;
  Scalar conj() const { return is_complex() ? Scalar(complex<double>(re_, -im_)) : *this; }
  bool equals(const Scalar& o) const;

 private:
  union {
    int64_t int_;  // the bits of a uint64_t for UInt
    double re_;
  };
  double im_ = 0;
  Tag tag_ = Tag::Int;
};

void append_text(std::string& out, const Scalar& value);

}  // namespace flambeau::c10
