#pragma once
// One operator overload in the dispatcher: a static table of kernels by dispatch key.
#include <optional>
#include <string_view>
#include <vector>

#include "aten/core/tensor.h"
#include "c10/core/thread_state.h"

namespace flambeau {

class Stack;
struct OperatorEntry;
struct OperatorTraits;  // aten/dispatch/operator_traits.h

// A kernel for any operator: takes arguments from the stack, leaves results on it.
using BoxedKernel = void (*)(const OperatorEntry& op, DispatchKeySet keys, Stack& stack);
// Calls an unboxed kernel of this operator with the stack's values (generated).
using UnboxingCaller = void (*)(void* kernel, DispatchKeySet keys, Stack& stack);

struct OperatorEntry {
  const char* name;                 // "add.Tensor"
  const char* schema;               // canonical text
  void* kernels[kNumDispatchKeys];  // unboxed; first parameter is always DispatchKeySet
  UnboxingCaller call_boxed;        // runs the entry's unboxed kernel on a stack
  // Adapter with the operator's unboxed signature that boxes its arguments and calls
  // `boxed_at(key)`.
  void* boxing_adapter;
  // By dispatch key; null until `set_boxed_kernel` is called, which few operators need.
  BoxedKernel* boxed = nullptr;
  // What transforms must know of it; set when the generated table of traits is registered.
  const OperatorTraits* traits = nullptr;

  // The kernel to run for a non-empty key set; Error(NotImplemented) naming op and backend if none.
  [[gnu::always_inline]] void* lookup(DispatchKeySet keys) const {
    void* kernel = kernel_at(keys.highest());
    return kernel ? kernel : lookup_slow(keys);
  }
  // Kernels may be replaced while other threads call: a plain load on the usual machines.
  void* kernel_at(int key) const { return __atomic_load_n(&kernels[key], __ATOMIC_ACQUIRE); }
  BoxedKernel boxed_at(int key) const {
    const BoxedKernel* const table = __atomic_load_n(&boxed, __ATOMIC_ACQUIRE);
    return table ? __atomic_load_n(&table[key], __ATOMIC_ACQUIRE) : nullptr;
  }
  // Falls through keys without a kernel; uses per-key global boxed fallbacks.
  void* lookup_slow(DispatchKeySet keys) const;
};

[[gnu::always_inline]] inline DispatchKeySet effective_keys(DispatchKeySet keys) {
  return DispatchKeySet((keys.bits() | thread_state.included) & ~thread_state.excluded);
}

// TypeError: a required Tensor is absent. Operators reach this by passing on an optional argument
// of their own.
[[noreturn, gnu::cold]] void fail_absent(const OperatorEntry& op);
[[gnu::always_inline]] inline DispatchKeySet keys_of(const Tensor& t, const OperatorEntry& op) {
  if (!t.defined()) [[unlikely]]
    fail_absent(op);
  return t.keys();
}
inline DispatchKeySet keys_of(TensorList list, const OperatorEntry& op) {
  DispatchKeySet keys;
  for (const Tensor& t : list) keys = keys | keys_of(t, op);
  return keys;
}
// The keys of optional arguments.
inline DispatchKeySet keys_of(const Tensor& t) { return t.defined() ? t.keys() : DispatchKeySet(); }
inline DispatchKeySet keys_of(TensorList list) {
  DispatchKeySet keys;
  for (const Tensor& t : list) keys = keys | keys_of(t);
  return keys;
}
inline DispatchKeySet keys_of(const std::optional<Device>& device) {
  return backend_key(device ? device->type : DeviceType::CPU);
}
// A layout that is asked for has a key of its own, as a tensor of that layout has.
inline DispatchKeySet keys_of(const std::optional<Layout>& layout) {
  return layout == Layout::SparseCoo ? DispatchKeySet(kSparseKey) : DispatchKeySet();
}
// Calls whose tensors may all be absent run on the CPU.
inline DispatchKeySet keys_or_cpu(DispatchKeySet keys) {
  return keys.empty() ? DispatchKeySet(DispatchKey::CPU) : keys;
}

// Registry over all generated tables (sorted by name).
const OperatorEntry* find_operator(std::string_view name);
const std::vector<OperatorEntry*>& all_operators();
void register_operators(OperatorEntry* const* entries, size_t count);
// A fallback for every operator that has no kernel for `key`; nullptr removes it.
void set_boxed_fallback(DispatchKey key, BoxedKernel fallback);
void set_kernel(OperatorEntry& op, DispatchKey key, void* unboxed);
void set_boxed_kernel(OperatorEntry& op, DispatchKey key, BoxedKernel kernel);

}  // namespace flambeau
