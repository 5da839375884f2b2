#pragma once
// The values of a file: numbers, text, lists, dicts and tensors. Values refer to one another by
// their numbers, so that no file can make the program recurse, and cycles are freed.
#include <limits>
#include <variant>
#include <vector>

#include "api/archive/bytes.h"
#include "aten/core/tensor.h"

namespace flambeau::api::archive {

using ValueId = uint32_t;

struct TensorValue {
  flambeau::Tensor tensor;  // on the CPU, without history
  bool requires_grad = false;
};
// A class or function that a pickle names: "module name".
struct NameValue {
  std::string text;
};
// The bytes of tensors and their dtype, which is Undefined if the file does not name it.
struct StorageValue {
  c10::Storage storage;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};
struct ListValue {
  std::vector<ValueId> items;
  bool is_tuple = false;
};
struct DictValue {
  std::vector<std::pair<ValueId, ValueId>> entries;  // of equal keys the last one is valid
};
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, TensorValue,
                           NameValue, StorageValue, ListValue, DictValue>;

class Document {
 public:
  ValueId add(Value value) {
    check(values_.size() < std::numeric_limits<ValueId>::max(), "load: too many values");
    values_.push_back(std::move(value));
    return static_cast<ValueId>(values_.size() - 1);
  }
  const Value& operator[](ValueId id) const { return values_.at(id); }
  template <typename T>
  const T* find(ValueId id) const {
    return std::get_if<T>(&values_.at(id));
  }
  template <typename T>
  T* find(ValueId id) {
    return std::get_if<T>(&values_.at(id));
  }
  // The value under a string or an integer; nullptr if `dict` is not one or the key is missing.
  template <typename Key>
  const ValueId* entry(ValueId dict, const Key& key) const {
    const DictValue* const found = find<DictValue>(dict);
    for (size_t i = found == nullptr ? 0 : found->entries.size(); i-- > 0;) {
      const Key* const known = find<Key>(found->entries[i].first);
      if (known != nullptr && *known == key) return &found->entries[i].second;
    }
    return nullptr;
  }
  // Appends the values of another document; returns what is added to their numbers.
  ValueId append(const Document& other);
  // The words for a value in error messages: "a dict", "a tensor".
  const char* kind(ValueId id) const;

  ValueId root = 0;

 private:
  std::vector<Value> values_;
};

// Reads "archive/data.pkl" and the storages that it refers to. RuntimeError for what is damaged and
// for values that state dicts do not have.
Document read_document(const ByteSource& source);
// Writes the root and all below it. ValueError for text that is not UTF-8.
void write_document(const Document& document, const Sink& sink);

}  // namespace flambeau::api::archive
