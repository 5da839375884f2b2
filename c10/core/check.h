#pragma once
// Precondition checks. A message is assembled only when the check fails, out of line.
// `check(n > 0, "narrow: expected a positive length, got ", n)` throws Error(Runtime).
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

// Which Python exception type the error becomes.
enum class ErrorKind : uint8_t {
  Runtime,
  Index,
  Type,
  Value,
  NotImplemented,
  ZeroDivision,
  OutOfMemory,
  LinearAlgebra,
  Assertion,
  ModuleNotFound
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void throw_error(ErrorKind kind, std::string message);

void append_integer(std::string& out, int64_t value);
void append_unsigned(std::string& out, uint64_t value);
void append_real(std::string& out, double value);

// Customisation point: a type prints itself by an `append_text(std::string&, const T&)` found by
// ADL.
inline void append_text(std::string& out, std::string_view value) { out.append(value); }
inline void append_text(std::string& out, const char* value) { out.append(value); }
inline void append_text(std::string& out, const std::string& value) { out.append(value); }
inline void append_text(std::string& out, char value) { out.push_back(value); }
inline void append_text(std::string& out, bool value) { out.append(value ? "True" : "False"); }
template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
void append_text(std::string& out, T value) {
  if constexpr (std::is_signed_v<T>) {
    append_integer(out, value);
  } else {
    append_unsigned(out, value);
  }
}
template <typename T>
  requires std::is_floating_point_v<T>
void append_text(std::string& out, T value) {
  append_real(out, static_cast<double>(value));
}

template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const Parts&... parts) {
  std::string message;
  (append_text(message, parts), ...);
  throw_error(kind, std::move(message));
}

template <typename... Parts>
[[gnu::always_inline]] inline void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Runtime, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline void check_index(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Index, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline void check_type(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Type, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline void check_value(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::Value, parts...);
}

// Flattens its parts into one string, with the same printers as `check`.
template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

}  // namespace flambeau::c10
