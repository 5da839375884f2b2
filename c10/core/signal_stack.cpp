#include "c10/core/signal_stack.h"

#include <csignal>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace flambeau::c10 {

#ifdef __linux__
namespace {

constexpr size_t kBytes = size_t{1} << 18;  // a frame with AVX-512 or AMX state takes up to 12 kB

class SignalStack {
 public:
  SignalStack() noexcept {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    const stack_t own{.ss_sp = memory, .ss_flags = 0, .ss_size = kBytes};
    if (sigaltstack(&own, nullptr) == 0) {
      memory_ = memory;
    } else {
      munmap(memory, kBytes);
    }
  }
  ~SignalStack() {
    if (!memory_) return;
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == memory_) {
      const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
      if (sigaltstack(&none, nullptr) != 0) return;  // in use
    }
    munmap(memory_, kBytes);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace

void use_signal_stack() noexcept {
  static thread_local const SignalStack stack;
  static_cast<void>(stack);
}
#else
void use_signal_stack() noexcept {}
#endif

}  // namespace flambeau::c10
