#pragma once
// Switches of a thread for the length of a scope, and parallel loops.
#include "api/tensor.h"
#include "aten/autograd/engine.h"
#include "aten/cpu/parallel.h"

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
      : grad_(enabled ? false : thread_state.grad_enabled),
        previous_(std::exchange(thread_state.inference_mode, enabled)) {}
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

using flambeau::get_num_threads;
using flambeau::in_parallel_region;
using flambeau::set_num_threads;

// f(begin, end) on disjoint parts of [begin, end), each of at least `grain_size` indices but the
// last.
template <typename F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  check(grain_size >= 0, "parallel_for: expected a grain size of 0 or more, got ", grain_size);
  if (begin >= end) return;
  if (end - begin <= grain_size || in_parallel_region()) {
    f(begin, end);
    return;
  }
  parallel_ranges(
      begin, end, std::max<int64_t>(grain_size, 1),
      [](void* context, int64_t b, int64_t e) { (*static_cast<const F*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace flambeau::api
