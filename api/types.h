#pragma once
// Values of the public C++ interface under the names that extensions use: dtypes, devices, options.
#include <optional>

#include "aten/core/tensor.h"

namespace flambeau::api {

using c10::append_text;
using c10::ArrayRef;
using c10::BFloat16;
using c10::DeviceType;
using c10::Generator;
using c10::Half;
using c10::IntArrayRef;
using c10::Layout;
using c10::MemoryFormat;
using c10::Storage;
using OptionalIntArrayRef = std::optional<IntArrayRef>;
using SymInt = int64_t;
using SymIntArrayRef = IntArrayRef;

// The library's enumeration under the names that C++ programs use; each converts to the other.
struct ScalarType {
  c10::ScalarType value = c10::ScalarType::Undefined;

  constexpr ScalarType() = default;
  constexpr ScalarType(c10::ScalarType type) : value(type) {}   // NOLINT
  constexpr operator c10::ScalarType() const { return value; }  // NOLINT
  friend void append_text(std::string& out, const ScalarType& t) {
    out.append(c10::pytorch_name_of(t.value));
  }
  static const ScalarType Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf,
      ComplexFloat, ComplexDouble, Bool, BFloat16, Float8_e5m2, Float8_e4m3fn, UInt16, UInt32,
      UInt64, Undefined;
};
inline constexpr ScalarType ScalarType::Byte{c10::ScalarType::UInt8};
inline constexpr ScalarType ScalarType::Char{c10::ScalarType::Int8};
inline constexpr ScalarType ScalarType::Short{c10::ScalarType::Int16};
inline constexpr ScalarType ScalarType::Int{c10::ScalarType::Int32};
inline constexpr ScalarType ScalarType::Long{c10::ScalarType::Int64};
inline constexpr ScalarType ScalarType::Half{c10::ScalarType::Float16};
inline constexpr ScalarType ScalarType::Float{c10::ScalarType::Float32};
inline constexpr ScalarType ScalarType::Double{c10::ScalarType::Float64};
inline constexpr ScalarType ScalarType::ComplexHalf{c10::ScalarType::Complex32};
inline constexpr ScalarType ScalarType::ComplexFloat{c10::ScalarType::Complex64};
inline constexpr ScalarType ScalarType::ComplexDouble{c10::ScalarType::Complex128};
inline constexpr ScalarType ScalarType::Bool{c10::ScalarType::Bool};
inline constexpr ScalarType ScalarType::BFloat16{c10::ScalarType::BFloat16};
inline constexpr ScalarType ScalarType::Float8_e5m2{c10::ScalarType::Float8E5M2};
inline constexpr ScalarType ScalarType::Float8_e4m3fn{c10::ScalarType::Float8E4M3FN};
inline constexpr ScalarType ScalarType::UInt16{c10::ScalarType::UInt16};
inline constexpr ScalarType ScalarType::UInt32{c10::ScalarType::UInt32};
inline constexpr ScalarType ScalarType::UInt64{c10::ScalarType::UInt64};
inline constexpr ScalarType ScalarType::Undefined{c10::ScalarType::Undefined};

inline constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kU8 = kByte;
inline constexpr ScalarType kChar = ScalarType::Char, kInt8 = kChar, kI8 = kChar;
inline constexpr ScalarType kShort = ScalarType::Short, kInt16 = kShort, kI16 = kShort;
inline constexpr ScalarType kInt = ScalarType::Int, kInt32 = kInt, kI32 = kInt;
inline constexpr ScalarType kLong = ScalarType::Long, kInt64 = kLong, kI64 = kLong;
inline constexpr ScalarType kHalf = ScalarType::Half, kFloat16 = kHalf, kF16 = kHalf;
inline constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = kFloat, kF32 = kFloat;
inline constexpr ScalarType kDouble = ScalarType::Double, kFloat64 = kDouble, kF64 = kDouble;
inline constexpr ScalarType kComplexFloat = ScalarType::ComplexFloat, kComplex64 = kComplexFloat;
inline constexpr ScalarType kComplexDouble = ScalarType::ComplexDouble,
                            kComplex128 = kComplexDouble;
inline constexpr ScalarType kComplexHalf = ScalarType::ComplexHalf, kComplex32 = kComplexHalf;
inline constexpr ScalarType kBool = ScalarType::Bool;
inline constexpr ScalarType kBFloat16 = ScalarType::BFloat16;
inline constexpr ScalarType kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32,
                            kUInt64 = ScalarType::UInt64;

inline constexpr DeviceType kCPU = DeviceType::CPU;
inline constexpr DeviceType kCUDA = DeviceType::CUDA;
inline constexpr DeviceType kMeta = DeviceType::Meta;
inline constexpr DeviceType kPrivateUse1 = DeviceType::PrivateUse1;
inline constexpr Layout kStrided = Layout::Strided;
inline constexpr Layout kSparse = Layout::SparseCoo;

// The dtype that stores a C++ type: CppTypeToScalarType<float>::value.
template <typename T>
struct CppTypeToScalarType {
  static constexpr c10::ScalarType value = c10::scalar_type_of<std::remove_cv_t<T>>;
};
// The C++ type of a dtype in kernels: bool, although memory contains a StoredBool.
template <c10::ScalarType S>
using kernel_type_t = std::conditional_t<S == c10::ScalarType::Bool, bool, c10::cpp_type_t<S>>;

inline const char* toString(c10::ScalarType t) { return c10::pytorch_name_of(t); }
inline size_t elementSize(c10::ScalarType t) { return c10::element_size(t); }
inline bool isFloatingType(c10::ScalarType t) { return c10::is_floating_type(t); }
inline bool isComplexType(c10::ScalarType t) { return c10::is_complex_type(t); }
inline bool isIntegralType(c10::ScalarType t, bool includeBool) {
  return c10::is_integral_type(t, includeBool);
}
inline c10::ScalarType toAccumulateType(c10::ScalarType t, bool /*is_cuda*/) {
  return c10::is_reduced_floating_type(t) ? kFloat.value : t;
}

class Device : public c10::Device {
 public:
  constexpr Device() = default;
  constexpr Device(c10::Device device) : c10::Device(device) {}                       // NOLINT
  constexpr Device(DeviceType type, int8_t index = -1) : c10::Device(type, index) {}  // NOLINT
  Device(const std::string& text) : c10::Device(parse(text)) {}                       // NOLINT
  Device(const char* text) : c10::Device(parse(text)) {}                              // NOLINT

  DeviceType type() const { return c10::Device::type; }
  int8_t index() const { return c10::Device::index; }
  bool has_index() const { return index() >= 0; }
  std::string str() const { return c10::text_of(static_cast<const c10::Device&>(*this)); }
};
inline void append_text(std::string& out, const Device& d) { out.append(d.str()); }

class Scalar : public c10::Scalar {
 public:
  using c10::Scalar::Scalar;
  Scalar() = default;
  Scalar(c10::Scalar value) : c10::Scalar(value) {}  // NOLINT(google-explicit-constructor)

  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to_bool(); }
  bool isFloatingPoint() const { return is_floating(); }
  bool isIntegral(bool includeBool) const { return is_integral(includeBool); }
  bool isComplex() const { return is_complex(); }
  bool isBoolean() const { return is_bool(); }
  api::ScalarType type() const { return dtype(); }
};

// What a factory is asked for: an unset part keeps the factory's default.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(c10::ScalarType type) : dtype_(type) {}           // NOLINT
  TensorOptions(api::ScalarType type) : dtype_(type) {}           // NOLINT
  TensorOptions(c10::Device device) : device_(device) {}          // NOLINT
  TensorOptions(DeviceType device) : device_(device) {}           // NOLINT
  TensorOptions(Layout layout) : layout_(layout) {}               // NOLINT
  TensorOptions(MemoryFormat format) : memory_format_(format) {}  // NOLINT

  TensorOptions dtype(std::optional<c10::ScalarType> type) const {
    return with(&TensorOptions::dtype_, type);
  }
  TensorOptions device(std::optional<c10::Device> device) const {
    return with(&TensorOptions::device_, device);
  }
  TensorOptions device(DeviceType type, int8_t index = -1) const {
    return device(c10::Device(type, index));
  }
  TensorOptions layout(std::optional<Layout> layout) const {
    return with(&TensorOptions::layout_, layout);
  }
  TensorOptions pinned_memory(std::optional<bool> pinned) const {
    return with(&TensorOptions::pin_memory_, pinned);
  }
  TensorOptions requires_grad(std::optional<bool> wanted) const {
    return with(&TensorOptions::requires_grad_, wanted);
  }
  TensorOptions memory_format(std::optional<MemoryFormat> format) const {
    return with(&TensorOptions::memory_format_, format);
  }

  api::ScalarType dtype() const { return dtype_.value_or(c10::default_dtype()); }
  api::Device device() const { return device_.value_or(c10::Device()); }
  Layout layout() const { return layout_.value_or(Layout::Strided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pin_memory_.value_or(false); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }

  std::optional<c10::ScalarType> dtype_opt() const { return dtype_; }
  std::optional<c10::Device> device_opt() const { return device_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> pin_memory_opt() const { return pin_memory_; }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }

 private:
  template <typename T>
  TensorOptions with(std::optional<T> TensorOptions::* part, std::optional<T> value) const {
    TensorOptions changed = *this;
    changed.*part = value;
    return changed;
  }

  std::optional<c10::ScalarType> dtype_;
  std::optional<c10::Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> pin_memory_;
  std::optional<bool> requires_grad_;
  std::optional<MemoryFormat> memory_format_;
};

inline TensorOptions dtype(c10::ScalarType type) { return {type}; }
inline TensorOptions device(c10::Device where) { return {where}; }
inline TensorOptions layout(Layout layout) { return {layout}; }
inline TensorOptions requires_grad(bool wanted = true) {
  return TensorOptions().requires_grad(wanted);
}

}  // namespace flambeau::api
