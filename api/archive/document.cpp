#include "api/archive/document.h"

namespace flambeau::api::archive {

ValueId Document::append(const Document& other) {
  const auto shift = static_cast<ValueId>(values_.size());
  for (Value value : other.values_) {
    if (auto* list = std::get_if<ListValue>(&value)) {
      for (ValueId& item : list->items) item += shift;
    } else if (auto* dict = std::get_if<DictValue>(&value)) {
      for (auto& [key, entry] : dict->entries) {
        key += shift;
        entry += shift;
      }
    }
    add(std::move(value));
  }
  return shift;
}

const char* Document::kind(ValueId id) const {
  static constexpr const char* kKinds[] = {"None",   "a bool",   "an integer", "a number",
                                           "text",   "a tensor", "a name",     "a storage",
                                           "a list", "a dict"};
  static_assert(std::size(kKinds) == std::variant_size_v<Value>);
  return kKinds[values_.at(id).index()];
}

}  // namespace flambeau::api::archive
