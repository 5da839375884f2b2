#pragma once
// TORCH_CHECK and the macros like it. A message is put together only when the check fails.
#include <sstream>

#include "api/tensor.h"
#include "aten/dispatch/extension_messages.h"

namespace flambeau::api {

template <typename T>
void append_part(std::string& out, const T& part) {
  if constexpr (requires { append_text(out, part); }) {
    append_text(out, part);
  } else {
    std::ostringstream text;
    text << part;
    out.append(text.str());
  }
}

template <typename... Parts>
[[gnu::cold, gnu::noinline]] std::string message_of(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

// What a failed check without a message says.
template <typename... Parts>
std::string check_message(const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0) {
    return c10::text_of("Expected ", condition, " to be true, but got false.");
  } else {
    return message_of(parts...);
  }
}

}  // namespace flambeau::api

#define FLAMBEAU_CHECK(kind, condition, ...)                                      \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::flambeau::c10::throw_error(                                               \
          ::flambeau::c10::ErrorKind::kind,                                       \
          ::flambeau::api::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK(condition, ...) FLAMBEAU_CHECK(Runtime, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) \
  FLAMBEAU_CHECK(Runtime, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) static_cast<void>(0)
#define TORCH_CHECK_INDEX(condition, ...) \
  FLAMBEAU_CHECK(Index, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) \
  FLAMBEAU_CHECK(Value, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) FLAMBEAU_CHECK(Type, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  FLAMBEAU_CHECK(NotImplemented, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_ARG(condition, number, ...) \
  FLAMBEAU_CHECK(Runtime, condition, "invalid argument ", number, ": ", __VA_ARGS__)
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(...) TORCH_CHECK(__VA_ARGS__)
#define AT_ERROR(...) TORCH_CHECK(false, __VA_ARGS__)
#define TORCH_WARN(...) ::flambeau::warn_of(::flambeau::api::message_of(__VA_ARGS__))
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                    \
  do {                                                          \
    static const bool warned = (TORCH_WARN(__VA_ARGS__), true); \
    static_cast<void>(warned);                                  \
  } while (false)
