#pragma once
// Switches of a thread for the length of a scope.
#include "api/parallel.h"
#include "api/tensor.h"
#include "aten/autograd/engine.h"

namespace flambeau::api {

class AutoGradMode : public c10::GradModeGuard {
 public:
  using GradModeGuard::GradModeGuard;
};
class NoGradGuard : public c10::GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard(false) {}
};
struct GradMode {
  static bool is_enabled() { return thread_state.grad_enabled; }
  static void set_enabled(bool enabled) { thread_state.grad_enabled = enabled; }
};
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true)
      : grad_(!enabled), previous_(std::exchange(thread_state.inference_mode, enabled)) {}
  ~InferenceMode() { thread_state.inference_mode = previous_; }
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;
  static bool is_enabled() { return thread_state.inference_mode; }

 private:
  c10::GradModeGuard grad_;
  bool previous_;
};
// Calls in its scope go to the kernels below autograd.
class AutoDispatchBelowAutograd : public c10::ExcludeKeys {
 public:
  AutoDispatchBelowAutograd() : ExcludeKeys(c10::DispatchKey::Autograd) {}
};
using AutoDispatchBelowADInplaceOrView = AutoDispatchBelowAutograd;
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;
class AutoDispatchSkipFunctionalize : public c10::ExcludeKeys {
 public:
  AutoDispatchSkipFunctionalize() : ExcludeKeys(c10::DispatchKey::Functionalize) {}
};

}  // namespace flambeau::api
