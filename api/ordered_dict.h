#pragma once
// Entries in the order of their insertion, found by key: parameters and children of modules.
#include "api/check.h"

namespace flambeau::api {

template <typename Key, typename Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    const Key& key() const { return pair_.first; }
    Value& value() { return pair_.second; }
    const Value& value() const { return pair_.second; }
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }
    const std::pair<Key, Value>& pair() const { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };

  OrderedDict() = default;
  OrderedDict(std::initializer_list<Item> items) {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool is_empty() const { return items_.empty(); }
  Item& operator[](size_t i) { return items_.at(i); }
  const Item& operator[](size_t i) const { return items_.at(i); }
  Item& front() { return items_.front(); }
  Item& back() { return items_.back(); }

  Value* find(const Key& key) {
    for (Item& item : items_) {
      if (item.key() == key) return &item.value();
    }
    return nullptr;
  }
  const Value* find(const Key& key) const { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const { return find(key) != nullptr; }
  Value& operator[](const Key& key) {
    Value* found = find(key);
    check_index(found != nullptr, "OrderedDict: expected a key of the dict, got '", key, "'");
    return *found;
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }

  Value& insert(Key key, Value value) {
    check(!contains(key), "OrderedDict.insert: expected a new key, got '", key, "' again");
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  void erase(const Key& key) {
    std::erase_if(items_, [&](const Item& item) { return item.key() == key; });
  }
  void clear() { items_.clear(); }

  std::vector<Key> keys() const {
    std::vector<Key> list;
    for (const Item& item : items_) list.push_back(item.key());
    return list;
  }
  std::vector<Value> values() const {
    std::vector<Value> list;
    for (const Item& item : items_) list.push_back(item.value());
    return list;
  }
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

}  // namespace flambeau::api
