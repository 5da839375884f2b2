#pragma once
// Tuples and dictionaries as values of schemas. An IValue refers to them as to objects of programs'
// classes, so copies of the value share the items.
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "aten/dispatch/stack.h"

namespace flambeau {

namespace api {
class IValue;  // of the C++ interface, which knows the class as ivalue::Tuple
}

class TupleValue final : public CustomClassHolder {
 public:
  explicit TupleValue(std::vector<IValue> items) : items(std::move(items)) {}
  const std::vector<IValue> items;

  // --- for programs in C++; api/value.cpp defines them
  static c10::intrusive_ptr<TupleValue> create(const std::vector<api::IValue>& items);
  // Made by the first call.
  const std::vector<api::IValue>& elements() const;
  size_t size() const { return items.size(); }

 private:
  mutable std::once_flag made_elements_;
  mutable std::shared_ptr<const std::vector<api::IValue>> elements_;
};

// Keys are numbers, texts, devices, or tensors, which are compared by identity. Entries are in the
// order of their first insertion.
class DictValue final : public CustomClassHolder {
 public:
  using Entry = std::pair<IValue, IValue>;
  using Entries = std::list<Entry>;

  // The types as schemas spell them.
  DictValue(std::string key_type, std::string value_type)
      : key_type(std::move(key_type)), value_type(std::move(value_type)) {}
  DictValue(const DictValue& other);
  DictValue& operator=(const DictValue&) = delete;

  Entries& entries() { return entries_; }
  const Entries& entries() const { return entries_; }
  size_t size() const { return places_.size(); }
  Entries::iterator find(const IValue& key);
  // The entry of the key, and whether it is new: the value of one that was there stays.
  std::pair<Entries::iterator, bool> insert(IValue key, IValue value);
  void erase(Entries::iterator at);
  void clear();

  const std::string key_type, value_type;

 private:
  struct Hash {
    size_t operator()(const IValue& key) const;
  };
  struct Same {
    bool operator()(const IValue& a, const IValue& b) const;
  };
  Entries entries_;
  std::unordered_map<IValue, Entries::iterator, Hash, Same> places_;
};

// The tuple or dictionary that a value refers to; nullptr if it is another value.
TupleValue* tuple_in(const IValue& value);
DictValue* dict_in(const IValue& value);
TupleValue* tuple_in(const CustomObject& object);
DictValue* dict_in(const CustomObject& object);

// A type as schemas spell it, taken apart: "Dict(str, Tensor[])?", "(Tensor, int)".
struct AggregateType {
  enum class Form : uint8_t { Other, Tuple, Dict };
  Form form = Form::Other;
  bool is_optional = false;               // of tuples and dictionaries
  std::vector<std::string_view> members;  // key and value, or the items; into the text
};
// RuntimeError for a dictionary without two types, and for more than 64 levels.
AggregateType aggregate_type(std::string_view text);
std::string_view trimmed(std::string_view text);
// The parts between the commas outside of brackets and quotes, without spaces around them.
std::vector<std::string_view> schema_parts(std::string_view text);
// Where the type ends that the text of a result begins with: "Dict(str, int) counts".
size_t end_of_type(std::string_view text);

}  // namespace flambeau
