#pragma once
// c10::List: a list that its copies share.
#include <memory>

#include "api/tensor.h"

namespace flambeau::api {

template <typename T>
class List {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;

  List() : items_(std::make_shared<std::vector<T>>()) {}
  List(std::initializer_list<T> items) : items_(std::make_shared<std::vector<T>>(items)) {}
  explicit List(ArrayRef<T> items) : items_(std::make_shared<std::vector<T>>(items.vec())) {}
  explicit List(std::vector<T> items)
      : items_(std::make_shared<std::vector<T>>(std::move(items))) {}

  List copy() const { return List(*items_); }
  // IndexError for an index out of range.
  T get(size_t i) const { return items_->at(checked(i)); }
  T extract(size_t i) const { return std::exchange(items_->at(checked(i)), T()); }
  void set(size_t i, T value) const { items_->at(checked(i)) = std::move(value); }
  T operator[](size_t i) const { return get(i); }
  void push_back(T value) const { items_->push_back(std::move(value)); }
  template <typename... Args>
  void emplace_back(Args&&... args) const {
    items_->emplace_back(std::forward<Args>(args)...);
  }
  void append(const List& other) const {
    const std::vector<T> added = *other.items_;
    items_->insert(items_->end(), added.begin(), added.end());
  }
  void pop_back() const { items_->pop_back(); }
  void clear() const { items_->clear(); }
  void reserve(size_t size) const { items_->reserve(size); }
  void resize(size_t size) const { items_->resize(size); }
  size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  iterator begin() const { return items_->begin(); }
  iterator end() const { return items_->end(); }
  const std::vector<T>& vec() const { return *items_; }
  bool is(const List& other) const { return items_ == other.items_; }
  uint32_t use_count() const { return static_cast<uint32_t>(items_.use_count()); }
  friend bool operator==(const List& a, const List& b) { return *a.items_ == *b.items_; }

 private:
  size_t checked(size_t i) const {
    check_index(i < items_->size(), "List: expected an index below ", items_->size(), ", got ", i);
    return i;
  }
  std::shared_ptr<std::vector<T>> items_;
};

}  // namespace flambeau::api
