#include "aten/dispatch/extension_messages.h"

#include <atomic>
#include <iostream>
#include <mutex>
#include <utility>

namespace flambeau {
namespace {

std::atomic<void (*)(const std::string&)> warning_handler = nullptr;

std::mutex errors_mutex;
std::string& errors() {
  static auto* const text = new std::string;
  return *text;
}

}  // namespace

void set_warning_handler(void (*handler)(const std::string& message)) {
  warning_handler.store(handler, std::memory_order_release);
}

void warn_of(const std::string& message) {
  if (const auto handler = warning_handler.load(std::memory_order_acquire)) return handler(message);
  std::cerr << "Warning: " << message << '\n';
}

void keep_library_error(const char* message) {
  const std::lock_guard lock(errors_mutex);
  std::string& all = errors();
  if (!all.empty()) all += '\n';
  all += message;
}

std::string take_library_errors() {
  const std::lock_guard lock(errors_mutex);
  return std::exchange(errors(), std::string());
}

}  // namespace flambeau
