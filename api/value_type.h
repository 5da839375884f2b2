#pragma once
// Types of values as programs name them: c10::StringType::get(), IValue::type().
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace flambeau::api {

class Type {
 public:
  explicit Type(std::string text) : text_(std::move(text)) {}
  // As schemas spell it: "Dict(str, Tensor[])".
  const std::string& str() const { return text_; }
  friend bool operator==(const Type&, const Type&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Type& type) { return out << type.text_; }

 private:
  std::string text_;
};
using TypePtr = std::shared_ptr<const Type>;

template <size_t size>
struct TypeText {
  consteval TypeText(const char (&literal)[size]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(literal, size, text);
  }
  char text[size];
};
template <TypeText name>
struct NamedType {
  static TypePtr get() { return std::make_shared<Type>(name.text); }
};
using AnyType = NamedType<"Any">;
using BoolType = NamedType<"bool">;
using ComplexType = NamedType<"complex">;
using DeviceObjType = NamedType<"Device">;
using FloatType = NamedType<"float">;
using IntType = NamedType<"int">;
using NoneType = NamedType<"NoneType">;
using NumberType = NamedType<"Scalar">;
using StringType = NamedType<"str">;
using TensorType = NamedType<"Tensor">;

struct DictType {
  static TypePtr create(const TypePtr& key, const TypePtr& value) {
    return std::make_shared<Type>("Dict(" + key->str() + ", " + value->str() + ")");
  }
};
struct TupleType {
  static TypePtr create(const std::vector<TypePtr>& items) {
    std::string text;
    for (const TypePtr& item : items) text += (text.empty() ? "" : ", ") + item->str();
    return std::make_shared<Type>("(" + text + ")");
  }
};
struct ListType {
  static TypePtr create(const TypePtr& item) { return std::make_shared<Type>(item->str() + "[]"); }
};
struct OptionalType {
  static TypePtr create(const TypePtr& type) { return std::make_shared<Type>(type->str() + "?"); }
};

}  // namespace flambeau::api
