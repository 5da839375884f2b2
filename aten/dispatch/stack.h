#pragma once
// Boxed arguments: what fallbacks, Python kernels and interposition see of a call.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "aten/core/tensor.h"

namespace flambeau {

// Base of the objects that programs' own classes have (aten/dispatch/custom_class.h). A copy of an
// object has owners of its own.
class CustomClassHolder : public c10::RefCounted {
 public:
  CustomClassHolder() = default;
  CustomClassHolder(const CustomClassHolder&) {}  // NOLINT(bugprone-copy-constructor-init)
  CustomClassHolder& operator=(const CustomClassHolder&) { return *this; }
};
using CustomObject = c10::intrusive_ptr<CustomClassHolder>;

// A value of any schema type. Lists are owned.
class IValue {
 public:
  using Payload = std::variant<std::monostate, Tensor, Scalar, std::string, std::vector<Tensor>,
                               std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<Scalar>, ScalarType, Device, Layout, MemoryFormat,
                               Generator, std::vector<std::string>, CustomObject>;

  IValue() = default;
  IValue(const IValue&);
  IValue(IValue&&) noexcept;
  IValue& operator=(const IValue&);
  IValue& operator=(IValue&&) noexcept;
  ~IValue();
  template <typename T>
    requires(!std::is_same_v<std::decay_t<T>, IValue>)
  explicit IValue(T&& payload) : payload_(std::forward<T>(payload)) {}

  bool is_none() const { return std::holds_alternative<std::monostate>(payload_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(payload_); }
  const Tensor& tensor() const { return std::get<Tensor>(payload_); }
  template <typename T>
  const T& get() const {
    return std::get<T>(payload_);
  }
  template <typename T>
  T& get() {
    return std::get<T>(payload_);
  }
  const Payload& payload() const { return payload_; }

 private:
  Payload payload_;
};

// Arguments in schema order, replaced by the results.
class Stack {
 public:
  Stack();
  Stack(const Stack&);
  Stack(Stack&&) noexcept;
  Stack& operator=(const Stack&);
  Stack& operator=(Stack&&) noexcept;
  ~Stack();
  void push(IValue value);
  IValue pop() {
    IValue last = std::move(values_.back());
    values_.pop_back();
    return last;
  }
  size_t size() const { return values_.size(); }
  IValue& operator[](size_t i) { return values_[i]; }
  const IValue& operator[](size_t i) const { return values_[i]; }
  void clear();

 private:
  static constexpr size_t kFirstValues = 4;  // most calls have no more, and allocate once
  std::vector<IValue> values_;
};

}  // namespace flambeau
