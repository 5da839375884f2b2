#include "aten/dispatch/device_fallback.h"

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "aten/dispatch/operator_entry.h"

namespace flambeau {

void (*warn_of_fallback)(const std::string& message) = nullptr;

namespace {

std::atomic<FallbackMode> mode{FallbackMode::Warn};

}  // namespace

FallbackMode set_device_fallback(FallbackMode wanted) { return mode.exchange(wanted); }

void announce_fallback(const OperatorEntry& op) {
  const FallbackMode now = mode.load(std::memory_order_relaxed);
  if (now == FallbackMode::Silent) return;
  const char* const device = name_of(DeviceType::PrivateUse1);
  if (now == FallbackMode::Error)
    fail(ErrorKind::NotImplemented, op.name, ": no kernel for this call on device ", device,
         ", and its fallback to the CPU is set to be an error");
  if (!warn_of_fallback) return;
  static auto* const mutex = new std::mutex;
  static auto* const told = new std::unordered_set<const OperatorEntry*>;
  {
    const std::lock_guard lock(*mutex);
    if (!told->insert(&op).second) return;
  }
  warn_of_fallback(text_of(op.name, ": no kernel for this call on device ", device,
                           "; it runs on the CPU, with copies of its arguments and results"));
}

}  // namespace flambeau
