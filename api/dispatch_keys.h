#pragma once
// Dispatch keys under the names that C++ programs use, sets of them, and their switches of a
// thread.
#include <initializer_list>
#include <iosfwd>
#include <optional>

#include "c10/core/check.h"
#include "c10/core/thread_state.h"

namespace flambeau::api {

// Several names mean one key of the dispatcher, which has no key per backend and functionality.
enum class DispatchKey : uint8_t {
  Undefined,
  CPU,
  CUDA,
  Meta,
  PrivateUse1,
  SparseCPU,
  Python,
  Conjugate,
  Negative,
  FuncTorchBatched,
  Autograd,
  AutogradCPU,
  AutogradCUDA,
  AutogradMeta,
  AutogradPrivateUse1,
  AutogradFunctionality,
  ADInplaceOrView,
  Autocast,
  AutocastCPU,
  AutocastCUDA,
  AutocastPrivateUse1,
  AutocastFunctionality,
  Functionalize,
  FuncTorchDynamicLayerFrontMode,
  // Not in a tensor's set: what kernels can be registered for.
  CompositeImplicitAutograd,
  CompositeExplicitAutograd,
  CompositeExplicitAutogradNonFunctional,
  CatchAll,
  // Keys of PyTorch that the dispatcher does not have; kernels for them are refused.
  BackendSelect,
  Tracer,
  MPS,
  XPU,
  HPU,
  QuantizedCPU,
  NestedTensorCPU,
};
const char* toString(DispatchKey key);
std::ostream& operator<<(std::ostream& out, DispatchKey key);
// The key of the dispatcher; none for keys that it does not have.
std::optional<c10::DispatchKey> dispatcher_key(DispatchKey key);
// The backend of a key that PyTorch has per backend, such as AutocastCPU; none for other keys. As
// in PyTorch, Autocast is another name of AutocastCUDA.
std::optional<c10::DispatchKey> backend_of_key(DispatchKey key);

// A set of keys as kernels receive and pass it on.
class DispatchKeySet {
 public:
  enum Full { FULL };
  enum FullAfter { FULL_AFTER };
  enum Raw { RAW };

  constexpr DispatchKeySet() = default;
  constexpr DispatchKeySet(c10::DispatchKeySet keys) : keys_(keys) {}  // NOLINT
  explicit DispatchKeySet(DispatchKey key) { *this = add(key); }
  explicit DispatchKeySet(std::initializer_list<DispatchKey> keys) {
    for (const DispatchKey key : keys) *this = add(key);
  }
  explicit DispatchKeySet(Full)
      : keys_((uint64_t{1} << static_cast<int>(c10::DispatchKey::Count)) - 1) {}
  // The keys that are called after `key`.
  DispatchKeySet(FullAfter, DispatchKey key);
  constexpr DispatchKeySet(Raw, uint64_t bits) : keys_(bits) {}
  constexpr operator c10::DispatchKeySet() const { return keys_; }  // NOLINT

  bool has(DispatchKey key) const;  // of AutogradCPU and its kind: with the backend
  bool has_any(DispatchKeySet other) const { return !(keys_ & other.keys_).empty(); }
  bool has_all(DispatchKeySet other) const { return (keys_ & other.keys_) == other.keys_; }
  bool isSupersetOf(DispatchKeySet other) const { return has_all(other); }
  bool empty() const { return keys_.empty(); }
  uint64_t raw_repr() const { return keys_.bits(); }
  [[nodiscard]] DispatchKeySet add(DispatchKey key) const;
  [[nodiscard]] DispatchKeySet remove(DispatchKey key) const;
  // The key whose kernel a call runs; Undefined for an empty set.
  DispatchKey highestPriorityTypeId() const;

  friend DispatchKeySet operator|(DispatchKeySet a, DispatchKeySet b) { return a.keys_ | b.keys_; }
  friend DispatchKeySet operator&(DispatchKeySet a, DispatchKeySet b) { return a.keys_ & b.keys_; }
  friend DispatchKeySet operator-(DispatchKeySet a, DispatchKeySet b) { return a.keys_ - b.keys_; }
  friend DispatchKeySet operator^(DispatchKeySet a, DispatchKeySet b) { return a.keys_ ^ b.keys_; }
  friend bool operator==(DispatchKeySet a, DispatchKeySet b) { return a.keys_ == b.keys_; }

 private:
  c10::DispatchKeySet keys_;
};
std::string toString(DispatchKeySet keys);
std::ostream& operator<<(std::ostream& out, DispatchKeySet keys);

// The keys that a call goes on with. RuntimeError for an empty set.
class PassedKeys {
 public:
  PassedKeys(DispatchKeySet keys) : keys_(keys) {  // NOLINT(google-explicit-constructor)
    c10::check(!keys.empty(), "redispatch: expected dispatch keys to go on with, got an empty set");
  }
  operator c10::DispatchKeySet() const { return keys_; }  // NOLINT(google-explicit-constructor)

 private:
  DispatchKeySet keys_;
};

// What a kernel for Autograd passes on. Views and versions belong to Autograd here, so the second
// name means the same set (docs/adr/0001).
inline const DispatchKeySet after_autograd_keyset(DispatchKeySet::FULL_AFTER,
                                                  DispatchKey::Autograd);
inline const DispatchKeySet after_ADInplaceOrView_keyset = after_autograd_keyset;
inline const DispatchKeySet autograd_dispatch_keyset(DispatchKey::Autograd);
inline const DispatchKeySet autocast_dispatch_keyset(DispatchKey::Autocast);

namespace of_impl {

class ExcludeDispatchKeyGuard : public c10::ExcludeKeys {
 public:
  explicit ExcludeDispatchKeyGuard(DispatchKeySet keys) : ExcludeKeys(keys) {}
  explicit ExcludeDispatchKeyGuard(DispatchKey key) : ExcludeKeys(DispatchKeySet(key)) {}
};
class IncludeDispatchKeyGuard : public c10::IncludeKeys {
 public:
  explicit IncludeDispatchKeyGuard(DispatchKeySet keys) : IncludeKeys(keys) {}
  explicit IncludeDispatchKeyGuard(DispatchKey key) : IncludeKeys(DispatchKeySet(key)) {}
};

struct LocalDispatchKeySet {
  DispatchKeySet included_, excluded_;
};
inline LocalDispatchKeySet tls_local_dispatch_key_set() {
  return {c10::DispatchKeySet(c10::thread_state.included),
          c10::DispatchKeySet(c10::thread_state.excluded)};
}
// Sets both until the end of the scope.
class ForceDispatchKeyGuard {
 public:
  ForceDispatchKeyGuard() : saved_(tls_local_dispatch_key_set()) {}
  ForceDispatchKeyGuard(DispatchKeySet include, DispatchKeySet exclude) : ForceDispatchKeyGuard() {
    set({include, exclude});
  }
  explicit ForceDispatchKeyGuard(LocalDispatchKeySet keys) : ForceDispatchKeyGuard() { set(keys); }
  ~ForceDispatchKeyGuard() { set(saved_); }
  ForceDispatchKeyGuard(const ForceDispatchKeyGuard&) = delete;
  ForceDispatchKeyGuard& operator=(const ForceDispatchKeyGuard&) = delete;

 private:
  static void set(LocalDispatchKeySet keys) {
    c10::thread_state.included = keys.included_.raw_repr();
    c10::thread_state.excluded = keys.excluded_.raw_repr();
  }
  LocalDispatchKeySet saved_;
};

bool tls_is_dispatch_key_excluded(DispatchKey key);
bool tls_is_dispatch_key_included(DispatchKey key);
void tls_set_dispatch_key_excluded(DispatchKey key, bool excluded);
void tls_set_dispatch_key_included(DispatchKey key, bool included);
inline bool tls_is_dispatch_keyset_excluded(DispatchKeySet keys) {
  return tls_local_dispatch_key_set().excluded_.has_all(keys);
}
inline bool tls_is_dispatch_keyset_included(DispatchKeySet keys) {
  return tls_local_dispatch_key_set().included_.has_all(keys);
}

}  // namespace of_impl

}  // namespace flambeau::api
