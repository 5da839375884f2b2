#pragma once
// Dispatch keys as bits of one word; the highest set bit decides which kernel runs.
#include <bit>
#include <cstdint>

#include "c10/core/device.h"

namespace flambeau::c10 {

enum class DispatchKey : uint8_t {
  // Backends, in DeviceType's order; kAbsentKey and sparse tensors have the last two.
  CPU,
  CUDA,
  Meta,
  PrivateUse1,
  PrivateUse2,
  PrivateUse3,
  // Functionality, innermost first.
  BackendMode,    // __torch_dispatch__ of classes and modes, below autograd
  Conjugate,      // the elements are the conjugates of what memory holds
  Negative,       // the elements are the negatives of what memory holds
  FuncTorchBack,  // below Autograd: leaves the innermost transform
  Autograd,
  Autocast,
  Functionalize,
  FuncTorch,  // enters the innermost transform
  Tracing,    // records the call for a profiler, whose thread has the key
  Python,
  Count,
};
inline constexpr int kNumDispatchKeys = static_cast<int>(DispatchKey::Count);
const char* name_of(DispatchKey k);

class DispatchKeySet {
 public:
  constexpr DispatchKeySet() = default;
  constexpr explicit DispatchKeySet(uint64_t bits) : bits_(bits) {}
  constexpr DispatchKeySet(DispatchKey k) : bits_(uint64_t{1} << static_cast<int>(k)) {}  // NOLINT
  constexpr uint64_t bits() const { return bits_; }
  constexpr bool has(DispatchKey k) const { return bits_ & DispatchKeySet(k).bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr DispatchKeySet operator|(DispatchKeySet o) const {
    return DispatchKeySet(bits_ | o.bits_);
  }
  constexpr DispatchKeySet operator&(DispatchKeySet o) const {
    return DispatchKeySet(bits_ & o.bits_);
  }
  constexpr DispatchKeySet operator-(DispatchKeySet o) const {
    return DispatchKeySet(bits_ & ~o.bits_);
  }
  constexpr DispatchKeySet operator^(DispatchKeySet o) const {
    return DispatchKeySet(bits_ ^ o.bits_);
  }
  // Index of the outermost key. The set must not be empty.
  constexpr int highest() const { return 63 - std::countl_zero(bits_); }
  // The keys below `k`: what a kernel of `k` redispatches to.
  constexpr DispatchKeySet below(DispatchKey k) const {
    return DispatchKeySet(bits_ & (DispatchKeySet(k).bits_ - 1));
  }
  bool operator==(const DispatchKeySet&) const = default;

 private:
  uint64_t bits_ = 0;
};

// The key of devices that no backend exists for.
inline constexpr DispatchKey kAbsentKey = DispatchKey::PrivateUse2;
constexpr DispatchKey backend_key(DeviceType t) {
  return t <= DeviceType::PrivateUse1 ? static_cast<DispatchKey>(t) : kAbsentKey;
}
// The key of sparse tensors: a backend that no device has, above those of devices.
inline constexpr DispatchKey kSparseKey = DispatchKey::PrivateUse3;
// Pending conjugation and negation of views: kernels below receive such tensors only if they pass
// them on.
inline constexpr DispatchKeySet kLazyKeys =
    DispatchKeySet(DispatchKey::Conjugate) | DispatchKeySet(DispatchKey::Negative);
inline constexpr DispatchKeySet kBackendKeys = DispatchKeySet((uint64_t{1} << 6) - 1);

}  // namespace flambeau::c10
