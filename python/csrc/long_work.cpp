// Operators that run without the GIL: what becomes of them when a signal arrives and when the
// process ends.
//
// Python's signal handlers run in the main thread and need the GIL. A long operator of that thread
// takes it ten times a second for them, so that Ctrl-C is answered, as is any other signal with a
// handler in Python: an exception that the handler raises stops the operator, which otherwise goes
// on. Operators of other threads are not disturbed.
//
// A daemon thread goes on after the interpreter is gone. It must neither come back to Python nor
// run while the destructors of libraries take away what it uses: exit() waits for it first.
#include <cxxabi.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "c10/core/interrupt.h"
#include "c10/core/thread_state.h"
#include "python/csrc/memory_history.h"
#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

// Threads that have left Python for an operator and are not waiting to come back; whether this
// thread is one.
std::atomic<int> threads_at_work{0};
thread_local constinit bool is_at_work = false;
thread_local constinit ThreadState switches_on_leaving;

void start_work() {
  is_at_work = true;
  threads_at_work.fetch_add(1, std::memory_order_relaxed);
}
bool end_work() {
  if (is_at_work) threads_at_work.fetch_sub(1, std::memory_order_release);
  return std::exchange(is_at_work, false);
}

bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

// Runs `take`, which Python leaves by pthread_exit() in threads that may not come back.
template <typename Take>
auto take_gil(const Take& take) noexcept {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    wait_for_the_end();  // to leave this block would be an error
  }
}

// The user's handler meets the switches of Python code, not those of the operator it interrupts.
class SwitchesOfPython {
 public:
  explicit SwitchesOfPython(bool has_left) : previous_(thread_state) {
    if (has_left) {
      thread_state = switches_on_leaving;
    } else {
      thread_state.included = thread_state.excluded = 0;
    }
  }
  ~SwitchesOfPython() { thread_state = previous_; }
  SwitchesOfPython(const SwitchesOfPython&) = delete;
  SwitchesOfPython& operator=(const SwitchesOfPython&) = delete;

 private:
  ThreadState previous_;
};

void run_signal_handlers() {
  if (!is_main_thread() || !Py_IsInitialized()) return;
  const SwitchesOfPython switches(is_at_work);
  const WithGil gil;
  if (PyErr_Occurred()) return;
  if (PyErr_CheckSignals() < 0) throw CarriedError();
}

// exit() calls this before the destructors of this library and of those it uses.
void end_long_work(int status, void*) {
  constexpr useconds_t kPause = 1000;  // us
  constexpr int kPatience = 10000;     // pauses
  stop_long_work();
  for (int i = 0; i < kPatience; ++i) {
    if (threads_at_work.load(std::memory_order_acquire) <= 0) return;
    usleep(kPause);
  }
  // A library's routine that cannot be stopped would use memory that destructors are about to free.
  std::fflush(nullptr);
  _exit(status);
}

void forget_other_threads() {
  threads_at_work.store(is_at_work ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace

PyThreadState* leave_python() noexcept {
  switches_on_leaving = thread_state;
  keep_stack_for_history();
  start_work();
  return PyEval_SaveThread();
}

void enter_python(PyThreadState* state) noexcept {
  end_work();
  take_gil([state] { PyEval_RestoreThread(state); });
  drop_stack_for_history();
}

BorrowedGil borrow_python() noexcept {
  const bool was_at_work = end_work();
  if (!Py_IsInitialized() && !is_main_thread()) wait_for_the_end();
  return {take_gil([] { return PyGILState_Ensure(); }), was_at_work};
}

void return_python(BorrowedGil borrowed) noexcept {
  if (borrowed.was_at_work) start_work();
  PyGILState_Release(borrowed.state);
}

bool any_thread_at_work() noexcept { return threads_at_work.load(std::memory_order_acquire) != 0; }

namespace {

// exit() runs what was registered last first. oneDNN registers destructors of kernels when it first
// uses them, so that the wait for threads must be registered once more after that.
void wait_before_newer_destructors() {
  constexpr int kMost = 4096;  // of 32 bytes each; then the kinds of products have all occurred
  static std::atomic<int> count{0};
  if (count.fetch_add(1, std::memory_order_relaxed) < kMost) on_exit(end_long_work, nullptr);
}

}  // namespace

void watch_long_work() {
  interrupt_poll.store(&run_signal_handlers, std::memory_order_relaxed);
  on_exit(end_long_work, nullptr);
  note_library_use.store(&wait_before_newer_destructors, std::memory_order_relaxed);
  pthread_atfork(nullptr, nullptr, forget_other_threads);
}

}  // namespace flambeau::python
