#pragma once
// c10::Dict: a dictionary that its copies share, in the order of insertion. Keys are numbers,
// texts, devices, or tensors, which are compared by identity.
#include <iterator>
#include <utility>

#include "api/boxing.h"

namespace flambeau::api {

template <typename K, typename V>
class Dict {
  using Place = DictValue::Entries::iterator;
  template <typename T>
  static T unboxed(flambeau::IValue& value) {
    return T(boxing::Type<T>::hold(value));
  }
  template <typename T>
  static flambeau::IValue boxed(const T& value) {
    return boxing::Type<T>::box(value);
  }

 public:
  using key_type = K;
  using mapped_type = V;
  using size_type = size_t;

  class iterator;
  // A key and its value. Valid until the key is erased.
  class Entry {
   public:
    explicit Entry(Place place) : place_(place) {}
    K key() const {
      flambeau::IValue key = place_->first;
      return unboxed<K>(key);
    }
    V value() const { return unboxed<V>(place_->second); }
    void setValue(const V& value) const { place_->second = boxed<V>(value); }

   private:
    friend class Dict;
    friend class iterator;
    Place place_;
  };
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using pointer = const Entry*;
    using reference = const Entry&;
    explicit iterator(Place place) : entry_(place) {}
    const Entry& operator*() const { return entry_; }
    const Entry* operator->() const { return &entry_; }
    iterator& operator++() {
      ++entry_.place_;
      return *this;
    }
    iterator operator++(int) {
      const iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator& other) const { return entry_.place_ == other.entry_.place_; }

   private:
    friend class Dict;
    Entry entry_;
  };

  Dict()
    requires(!std::is_same_v<K, IValue>)
      : Dict(make_intrusive<DictValue>(boxing::name_of_type<K>(), boxing::name_of_type<V>())) {}
  // Of values of any type, which these types name.
  Dict(const TypePtr& key, const TypePtr& value)
    requires(std::is_same_v<K, IValue>)
      : Dict(make_intrusive<DictValue>(key->str(), value->str())) {}
  explicit Dict(const std::unordered_map<K, V>& items) : Dict() {
    for (const auto& [key, value] : items) insert(key, value);
  }
  explicit Dict(intrusive_ptr<DictValue> shared) : shared_(std::move(shared)) {}

  Dict copy() const { return Dict(make_intrusive<DictValue>(*shared_)); }
  iterator begin() const { return iterator(shared_->entries().begin()); }
  iterator end() const { return iterator(shared_->entries().end()); }
  bool empty() const { return size() == 0; }
  size_t size() const { return shared_->size(); }
  void clear() const { shared_->clear(); }
  void reserve(size_t) const {}
  // The entry of the key, and whether it is new. The value of a key that is there stays.
  std::pair<iterator, bool> insert(const K& key, const V& value) const {
    const auto [place, is_new] = shared_->insert(boxed<K>(key), boxed<V>(value));
    return {iterator(place), is_new};
  }
  std::pair<iterator, bool> insert_or_assign(const K& key, const V& value) const {
    const auto found = insert(key, value);
    if (!found.second) found.first->setValue(value);
    return found;
  }
  size_t erase(const K& key) const {
    const iterator found = find(key);
    if (found == end()) return 0;
    erase(found);
    return 1;
  }
  void erase(iterator at) const { shared_->erase(at.entry_.place_); }
  // IndexError for a key that is not there.
  V at(const K& key) const {
    const iterator found = find(key);
    check_index(found != end(), "Dict: expected a key of the dictionary, got one that was not in ",
                "the map");
    return found->value();
  }
  iterator find(const K& key) const { return iterator(shared_->find(boxed<K>(key))); }
  bool contains(const K& key) const { return find(key) != end(); }

  TypePtr keyType() const { return std::make_shared<Type>(shared_->key_type); }
  TypePtr valueType() const { return std::make_shared<Type>(shared_->value_type); }
  bool is(const Dict& other) const { return shared_.get() == other.shared_.get(); }
  // The same keys with equal values, in any order.
  friend bool operator==(const Dict& a, const Dict& b) { return IValue(a) == IValue(b); }
  const intrusive_ptr<DictValue>& shared() const { return shared_; }

 private:
  intrusive_ptr<DictValue> shared_;
};

namespace of_impl {

// RuntimeError for a dictionary of other types.
template <typename K, typename V>
Dict<K, V> toTypedDict(const GenericDict& dict) {
  const std::string key = boxing::name_of_type<K>(), value = boxing::name_of_type<V>();
  check(dict.keyType()->str() == key && dict.valueType()->str() == value, "Dict: expected Dict(",
        key, ", ", value, "), got Dict(", dict.keyType()->str(), ", ", dict.valueType()->str(),
        ")");
  return Dict<K, V>(dict.shared());
}
template <typename K, typename V>
GenericDict toGenericDict(const Dict<K, V>& dict) {
  return GenericDict(dict.shared());
}

}  // namespace of_impl

namespace boxing {

template <typename K, typename V>
struct Type<Dict<K, V>> {
  using Held = Dict<K, V>;
  static std::string name() { return "Dict(" + name_of_type<K>() + ", " + name_of_type<V>() + ")"; }
  static Held hold(flambeau::IValue& v) {
    DictValue* const found = dict_in(v);
    check(found != nullptr, "expected a Dict, got ", IValue(v).tagKind());
    const of_impl::GenericDict dict(intrusive_ptr<DictValue>::share(found));
    if constexpr (std::is_same_v<K, IValue>) {
      return dict;
    } else {
      return of_impl::toTypedDict<K, V>(dict);
    }
  }
  static flambeau::IValue box(const Held& v) { return IValue(v); }
};
template <typename K, typename V>
struct Type<std::unordered_map<K, V>> {
  using Held = std::unordered_map<K, V>;
  static std::string name() { return Type<Dict<K, V>>::name(); }
  static Held hold(flambeau::IValue& v) {
    Held items;
    for (const auto& entry : Type<Dict<K, V>>::hold(v)) items.emplace(entry.key(), entry.value());
    return items;
  }
  static flambeau::IValue box(const Held& v) { return IValue(v); }
};

}  // namespace boxing

inline of_impl::GenericDict IValue::toGenericDict() const { return to<of_impl::GenericDict>(); }

}  // namespace flambeau::api
