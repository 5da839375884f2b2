#pragma once
// IValue: a value of any schema type, as contexts keep it and boxed calls carry it.
#include <iosfwd>
#include <tuple>
#include <unordered_map>

#include "api/list.h"
#include "api/value_type.h"
#include "aten/dispatch/aggregates.h"

namespace flambeau::api {

template <typename K, typename V>
class Dict;  // api/dict.h
namespace of_impl {
using GenericDict = Dict<IValue, IValue>;
}  // namespace of_impl
namespace ivalue {
using Tuple = flambeau::TupleValue;
}  // namespace ivalue

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
  IValue(std::vector<std::string> value) : flambeau::IValue(std::move(value)) {}  // NOLINT
  IValue(ArrayRef<Tensor> value) : IValue(value.vec()) {}                         // NOLINT
  IValue(Layout value) : flambeau::IValue(value) {}                               // NOLINT
  IValue(MemoryFormat value) : flambeau::IValue(value) {}                         // NOLINT
  IValue(Generator value) : flambeau::IValue(std::move(value)) {}                 // NOLINT
  template <typename T>
  IValue(const List<T>& value) : IValue(value.vec()) {}  // NOLINT(google-explicit-constructor)
  template <typename K, typename V>
  IValue(const Dict<K, V>& value) : flambeau::IValue(CustomObject(value.shared())) {}  // NOLINT
  template <typename K, typename V>
  IValue(const std::unordered_map<K, V>& value) : IValue(Dict<K, V>(value)) {}  // NOLINT
  template <typename... Ts>
  IValue(const std::tuple<Ts...>& value)  // NOLINT(google-explicit-constructor)
      : IValue(std::apply([](const auto&... each) { return ivalue::Tuple::create({each...}); },
                          value)) {}
  template <typename T>
    requires std::is_base_of_v<CustomClassHolder, T>
  IValue(intrusive_ptr<T> object) : flambeau::IValue(CustomObject(std::move(object))) {}  // NOLINT
  template <typename T>
  IValue(const std::optional<T>& value) {  // NOLINT(google-explicit-constructor)
    if (value) *this = IValue(*value);
  }

  bool isNone() const { return is_none(); }
  bool isTensor() const { return is_tensor(); }
  bool isInt() const { return is_number() && held<c10::Scalar>("int").is_integral(false); }
  bool isDouble() const { return is_number() && held<c10::Scalar>("float").is_floating(); }
  bool isBool() const { return is_number() && held<c10::Scalar>("bool").is_bool(); }
  bool isString() const { return holds<std::string>(); }
  bool isScalar() const { return is_number(); }
  bool isComplexDouble() const { return is_number() && held<c10::Scalar>("complex").is_complex(); }
  bool isTensorList() const { return holds<std::vector<flambeau::Tensor>>(); }
  bool isIntList() const { return holds<std::vector<int64_t>>(); }
  bool isDoubleList() const { return holds<std::vector<double>>(); }
  bool isBoolList() const { return holds<std::vector<bool>>(); }
  bool isList() const {
    return isTensorList() || isIntList() || isDoubleList() || isBoolList() ||
           holds<std::vector<std::string>>() || holds<std::vector<c10::Scalar>>();
  }
  bool isDevice() const { return holds<c10::Device>(); }
  bool isGenerator() const { return holds<Generator>(); }
  bool isTuple() const { return tuple_in(*this) != nullptr; }
  bool isGenericDict() const { return dict_in(*this) != nullptr; }
  bool isCustomClass() const { return holds<CustomObject>() && !isTuple() && !isGenericDict(); }
  bool isObject() const { return isCustomClass(); }
  Tensor toTensor() const { return held<flambeau::Tensor>("Tensor"); }
  int64_t toInt() const { return held<c10::Scalar>("int").to<int64_t>(); }
  api::Device toDevice() const { return held<c10::Device>("Device"); }
  api::ScalarType toScalarType() const { return held<c10::ScalarType>("ScalarType"); }
  Layout toLayout() const { return held<Layout>("Layout"); }
  MemoryFormat toMemoryFormat() const { return held<MemoryFormat>("MemoryFormat"); }
  Generator toGenerator() const { return held<Generator>("Generator"); }
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
  std::vector<bool> toBoolVector() const { return held<std::vector<bool>>("bool[]"); }
  std::vector<std::string> toStringVector() const {
    return held<std::vector<std::string>>("str[]");
  }
  std::string_view toStringView() const { return toStringRef(); }
  // RuntimeError for another value. Tuples and dictionaries are shared, not copied.
  intrusive_ptr<ivalue::Tuple> toTuple() const;
  const ivalue::Tuple& toTupleRef() const { return *toTuple(); }
  of_impl::GenericDict toGenericDict() const;
  // Copies, which writes do not carry back.
  List<int64_t> toIntList() const { return List<int64_t>(toIntVector()); }
  List<double> toDoubleList() const { return List<double>(toDoubleVector()); }
  List<bool> toBoolList() const { return List<bool>(toBoolVector()); }
  List<Tensor> toTensorList() const { return List<Tensor>(toTensorVector()); }
  // RuntimeError for an object of another class.
  template <typename T>
  intrusive_ptr<T> toCustomClass() const {
    auto* const object = dynamic_cast<T*>(held<CustomObject>("an object of a class").get());
    check(object != nullptr,
          "IValue: expected an object of the class that is asked for, got one of "
          "another class");
    return intrusive_ptr<T>::share(object);
  }
  // Tensors have to have one element for the comparison of their values.
  friend bool operator==(const IValue& a, const IValue& b);
  // The same tensor, tuple, dictionary or object; other values are compared.
  bool is(const IValue& other) const;
  // "Tensor", "Int", "GenericDict", as messages call the kind of value.
  const char* tagKind() const;
  TypePtr type() const;
  friend std::ostream& operator<<(std::ostream& out, const IValue& value);

  // By the type that a kernel would take: to<int64_t>(), to<std::vector<at::Tensor>>(). Defined
  // with these types (api/boxing.h).
  template <typename T>
  T to() const;
  template <typename T>
  std::optional<T> toOptional() const {
    return isNone() ? std::nullopt : std::optional<T>(to<T>());
  }

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(payload());
  }
  bool is_number() const { return holds<c10::Scalar>(); }
  template <typename T>
  const T& held(const char* wanted) const {
    check(std::holds_alternative<T>(payload()), "IValue: expected ", wanted, ", got ", tagKind());
    return std::get<T>(payload());
  }
};

}  // namespace flambeau::api
