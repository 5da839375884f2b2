#pragma once
// IValue: a value of any schema type, as contexts keep it and boxed calls carry it.
#include "api/tensor.h"
#include "aten/dispatch/stack.h"

namespace flambeau::api {

class IValue : public flambeau::IValue {
 public:
  IValue() = default;
  IValue(flambeau::IValue value) : flambeau::IValue(std::move(value)) {}  // NOLINT
  IValue(std::nullopt_t) {}                                               // NOLINT
  template <typename T>
    requires std::is_arithmetic_v<T>
  IValue(T value) : flambeau::IValue(c10::Scalar(value)) {}                   // NOLINT
  IValue(const c10::Scalar& value) : flambeau::IValue(c10::Scalar(value)) {}  // NOLINT
  IValue(flambeau::Tensor value) : flambeau::IValue(std::move(value)) {}      // NOLINT
  IValue(std::string value) : flambeau::IValue(std::move(value)) {}           // NOLINT
  IValue(const char* value) : flambeau::IValue(std::string(value)) {}         // NOLINT
  IValue(std::vector<int64_t> value) : flambeau::IValue(std::move(value)) {}  // NOLINT
  IValue(std::vector<double> value) : flambeau::IValue(std::move(value)) {}   // NOLINT
  IValue(std::vector<bool> value) : flambeau::IValue(std::move(value)) {}     // NOLINT
  IValue(IntArrayRef value) : flambeau::IValue(value.vec()) {}                // NOLINT
  IValue(c10::ScalarType value) : flambeau::IValue(value) {}                  // NOLINT
  IValue(c10::Device value) : flambeau::IValue(value) {}                      // NOLINT
  IValue(const std::vector<Tensor>& value)                                    // NOLINT
      : flambeau::IValue(std::vector<flambeau::Tensor>(value.begin(), value.end())) {}
  template <typename T>
  IValue(const std::optional<T>& value) {  // NOLINT(google-explicit-constructor)
    if (value) *this = IValue(*value);
  }

  bool isNone() const { return is_none(); }
  bool isTensor() const { return is_tensor(); }
  bool isInt() const { return is_number() && held<c10::Scalar>("int").is_integral(false); }
  bool isDouble() const { return is_number() && held<c10::Scalar>("float").is_floating(); }
  bool isBool() const { return is_number() && held<c10::Scalar>("bool").is_bool(); }
  bool isString() const { return std::holds_alternative<std::string>(payload()); }
  Tensor toTensor() const { return held<flambeau::Tensor>("Tensor"); }
  int64_t toInt() const { return held<c10::Scalar>("int").to<int64_t>(); }
  double toDouble() const { return held<c10::Scalar>("float").to_double(); }
  bool toBool() const { return held<c10::Scalar>("bool").to_bool(); }
  Scalar toScalar() const { return held<c10::Scalar>("number"); }
  const std::string& toStringRef() const { return held<std::string>("str"); }
  std::vector<int64_t> toIntVector() const { return held<std::vector<int64_t>>("int[]"); }
  std::vector<double> toDoubleVector() const { return held<std::vector<double>>("float[]"); }
  std::vector<Tensor> toTensorVector() const {
    const auto& list = held<std::vector<flambeau::Tensor>>("Tensor[]");
    return std::vector<Tensor>(list.begin(), list.end());
  }

 private:
  bool is_number() const { return std::holds_alternative<c10::Scalar>(payload()); }
  template <typename T>
  const T& held(const char* wanted) const {
    check(std::holds_alternative<T>(payload()), "IValue: expected ", wanted,
          ", got a value of another type");
    return std::get<T>(payload());
  }
};

}  // namespace flambeau::api
