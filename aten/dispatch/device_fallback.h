#pragma once
// Settings of the kernel that operators without one for an out-of-tree device run: it copies their
// arguments to the CPU and the results back (aten/ops/device/fallback.cpp).
#include <cstdint>
#include <string>

namespace flambeau {

struct OperatorEntry;

enum class FallbackMode : uint8_t { Warn, Silent, Error };

// Returns the previous mode. Warn tells once per operator, Error raises NotImplemented.
FallbackMode set_device_fallback(FallbackMode mode);
// What the mode says about a call that is about to run on the CPU.
void announce_fallback(const OperatorEntry& op);

// Set by the binding; may raise what the program makes of a warning.
extern void (*warn_of_fallback)(const std::string& message);

}  // namespace flambeau
