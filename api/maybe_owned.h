#pragma once
// A value, or a reference to one that lives elsewhere.
#include <utility>
#include <variant>

namespace flambeau::api {

template <typename T>
class MaybeOwned {
 public:
  static MaybeOwned borrowed(const T& value) { return MaybeOwned(&value); }
  static MaybeOwned owned(T&& value) { return MaybeOwned(std::move(value)); }
  template <typename... Args>
  static MaybeOwned owned(std::in_place_t, Args&&... args) {
    return MaybeOwned(T(std::forward<Args>(args)...));
  }
  MaybeOwned() : held_(T()) {}

  const T& operator*() const& {
    const T* const* borrowed = std::get_if<const T*>(&held_);
    return borrowed ? **borrowed : std::get<T>(held_);
  }
  // Of a temporary: a value that does not end with it.
  T operator*() && { return *std::as_const(*this); }
  const T* operator->() const { return &**this; }
  bool unsafeIsBorrowed() const { return std::holds_alternative<const T*>(held_); }

 private:
  explicit MaybeOwned(const T* borrowed) : held_(borrowed) {}
  explicit MaybeOwned(T&& owned) : held_(std::move(owned)) {}
  std::variant<const T*, T> held_;
};

}  // namespace flambeau::api
