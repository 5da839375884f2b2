#include "c10/core/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "c10/core/dtype_dispatch.h"

namespace flambeau::c10 {
namespace {

// Types of memory whose values are converted from a float.
template <typename T>
constexpr bool kFromFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || is_float8<T>;

// Whether `value` is outside T. Negative integers may wrap into an unsigned type of their
// magnitude.
template <typename T>
bool overflows(int64_t value) {
  if constexpr (c10::is_bool<T> || !std::is_integral_v<T>) {
    return false;
  } else if constexpr (std::is_unsigned_v<T>) {
    const uint64_t magnitude =
        value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    return magnitude > std::numeric_limits<T>::max();
  } else {
    return value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max();
  }
}

// The same for one of at least 2^63.
template <typename T>
bool overflows(uint64_t) {
  return std::is_integral_v<T> && !c10::is_bool<T> && !std::is_same_v<T, uint64_t>;
}

template <typename T>
bool overflows(double value) {
  if constexpr (c10::is_bool<T> || std::is_same_v<T, double>) {
    return false;
  } else if constexpr (std::is_integral_v<T>) {
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    const double greatest = static_cast<double>(std::numeric_limits<T>::max());
    const bool below = sizeof(T) == 8 ? value < greatest : value <= greatest;  // 2^63 does not fit
    return !(below && value >= least);                                         // NaN overflows
  } else if constexpr (is_float8<T>) {
    return false;  // the type defines the conversion of large numbers
  } else {
    return std::isfinite(value) &&
           std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max());
  }
}

template <typename T>
T from_real(double value) {
  if constexpr (c10::is_bool<T>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    // Out of range is undefined in C++; wrapping is what vectorised conversions give on x86.
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value >= 0x1p63 && value < 0x1p64) return static_cast<uint64_t>(value);
    }
    if (!(value >= -0x1p63 && value < 0x1p63))
      return static_cast<T>(std::numeric_limits<int64_t>::min());
    return static_cast<T>(static_cast<int64_t>(value));
  } else if constexpr (kFromFloat<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// An integer of either kind, rounded once.
template <typename T, typename Integer>
T from_integer(Integer value) {
  if constexpr (c10::is_bool<T>) {
    return value != 0;
  } else if constexpr (kFromFloat<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// The names that users of PyTorch meet in the message.
template <typename T>
[[noreturn]] void fail_overflow() {
  static constexpr const char* kNames[] = {
      "bool",  "uint8_t", "int8_t", "int16_t", "int",      "int64_t",  "c10::Half", "c10::BFloat16",
      "float", "double",  "",       "",        "uint64_t", "uint16_t", "uint32_t"};
  constexpr ScalarType kType = scalar_type_of<T>;
  if constexpr (is_byte_floating_type(kType)) {
    fail(ErrorKind::Runtime, "value does not fit type c10::", pytorch_name_of(kType),
         " without overflow");
  } else {
    fail(ErrorKind::Runtime, "value does not fit type ", kNames[index_of(kType)],
         " without overflow");
  }
}

}  // namespace

ScalarType Scalar::dtype() const {
  switch (tag_) {
    case Tag::Bool:
      return ScalarType::Bool;
    case Tag::Int:
    case Tag::UInt:
      return ScalarType::Int64;
    case Tag::Double:
      return default_dtype();
    default:
      return default_complex_dtype();
  }
}

template <typename T>
T Scalar::to() const {
  if constexpr (is_complex_v<T>) {
    return T(to_complex());
  } else if constexpr (c10::is_bool<T>) {
    return !is_zero();
  } else {
    if (tag_ == Tag::UInt) {
      if (overflows<T>(static_cast<uint64_t>(int_))) fail_overflow<T>();
      return from_integer<T>(static_cast<uint64_t>(int_));
    }
    if (is_integral(true)) {
      if (overflows<T>(int_)) fail_overflow<T>();
      return from_integer<T>(int_);
    }
    if ((is_complex() && im_ != 0) || overflows<T>(re_)) fail_overflow<T>();
    return from_real<T>(re_);
  }
}

template bool Scalar::to<bool>() const;
template StoredBool Scalar::to<StoredBool>() const;
template uint8_t Scalar::to<uint8_t>() const;
template int8_t Scalar::to<int8_t>() const;
template int16_t Scalar::to<int16_t>() const;
template int32_t Scalar::to<int32_t>() const;
template int64_t Scalar::to<int64_t>() const;
template Half Scalar::to<Half>() const;
template BFloat16 Scalar::to<BFloat16>() const;
template float Scalar::to<float>() const;
template double Scalar::to<double>() const;
template complex<float> Scalar::to<complex<float>>() const;
template complex<double> Scalar::to<complex<double>>() const;
template uint16_t Scalar::to<uint16_t>() const;
template uint32_t Scalar::to<uint32_t>() const;
template uint64_t Scalar::to<uint64_t>() const;
template complex<Half> Scalar::to<complex<Half>>() const;
template Float8E5M2 Scalar::to<Float8E5M2>() const;
template Float8E4M3FN Scalar::to<Float8E4M3FN>() const;
template Float8E5M2FNUZ Scalar::to<Float8E5M2FNUZ>() const;
template Float8E4M3FNUZ Scalar::to<Float8E4M3FNUZ>() const;
template Float8E8M0FNU Scalar::to<Float8E8M0FNU>() const;

void Scalar::store(ScalarType t, void* destination) const {
  dispatch_stored(t, "Scalar.store", [&]<typename T>() {
    T value;
    if constexpr (is_complex_v<T>) {
      value = T(to_complex());
    } else if (!is_integral(true)) {
      value = from_real<T>(re_);
    } else if (tag_ == Tag::UInt) {
      value = from_integer<T>(static_cast<uint64_t>(int_));
    } else {
      value = from_integer<T>(int_);
    }
    std::memcpy(destination, &value, sizeof value);
  });
}

Scalar Scalar::load(ScalarType t, const void* source) {
  Scalar result;
  dispatch_stored(t, "Scalar.load", [&]<typename T>() {
    T value;
    std::memcpy(static_cast<void*>(&value), source, sizeof value);
    result = Scalar(value);
  });
  return result;
}

Scalar Scalar::operator-() const {
  if (is_complex()) return Scalar(complex<double>(-re_, -im_));
  // Unsigned arithmetic: the negative of the least int64 wraps instead of being undefined.
  if (is_integral(true)) return Scalar(static_cast<int64_t>(0 - static_cast<uint64_t>(int_)));
  return Scalar(-re_);
}

bool Scalar::equals(const Scalar& o) const {
  if (is_integral(true) && o.is_integral(true)) {
    return int_ == o.int_ && (tag_ == Tag::UInt) == (o.tag_ == Tag::UInt);
  }
  return to_complex() == o.to_complex();
}

void append_text(std::string& out, const Scalar& value) {
  switch (value.tag()) {
    case Scalar::Tag::Bool:
      append_text(out, value.to_bool());
      break;
    case Scalar::Tag::Int:
      append_integer(out, value.to<int64_t>());
      break;
    case Scalar::Tag::UInt:
      out.append(std::to_string(value.to<uint64_t>()));
      break;
    case Scalar::Tag::Double:
      append_real(out, value.to_double());
      break;
    case Scalar::Tag::Complex: {
      const complex<double> c = value.to_complex();
      out.push_back('(');
      append_real(out, c.re);
      if (!(c.im < 0)) out.push_back('+');
      append_real(out, c.im);
      out.append("j)");
      break;
    }
  }
}

}  // namespace flambeau::c10
