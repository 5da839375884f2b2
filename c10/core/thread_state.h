#pragma once
// Per-thread switches that every operator call reads: one small trivially constructed block.
#include "c10/core/dispatch_key.h"

namespace flambeau::c10 {

struct ThreadState {
  uint64_t included = 0;
  uint64_t excluded = 0;
  bool grad_enabled = true;
  bool inference_mode = false;
  bool forward_grad_enabled = true;
};

// initial-exec keeps the access to one instruction; the block is 24 bytes of the static TLS
// surplus.
extern thread_local constinit ThreadState thread_state __attribute__((tls_model("initial-exec")));

class ExcludeKeys {
 public:
  [[gnu::always_inline]] explicit ExcludeKeys(DispatchKeySet keys)
      : previous_(thread_state.excluded) {
    thread_state.excluded |= keys.bits();
  }
  [[gnu::always_inline]] ~ExcludeKeys() { thread_state.excluded = previous_; }
  ExcludeKeys(const ExcludeKeys&) = delete;
  ExcludeKeys& operator=(const ExcludeKeys&) = delete;

 private:
  uint64_t previous_;
};

class IncludeKeys {
 public:
  explicit IncludeKeys(DispatchKeySet keys) : previous_(thread_state.included) {
    thread_state.included |= keys.bits();
  }
  ~IncludeKeys() { thread_state.included = previous_; }
  IncludeKeys(const IncludeKeys&) = delete;
  IncludeKeys& operator=(const IncludeKeys&) = delete;

 private:
  uint64_t previous_;
};

// Sets grad mode until the end of the scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : previous_(thread_state.grad_enabled) {
    thread_state.grad_enabled = enabled;
  }
  ~GradModeGuard() { thread_state.grad_enabled = previous_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

}  // namespace flambeau::c10
