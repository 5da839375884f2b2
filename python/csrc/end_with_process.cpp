// A process that must not outlive another one: a thread waits for the end of the other process. It
// is not a thread of Python, so it does not need the GIL, which a busy or hanging worker may never
// release.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "python/csrc/data.h"

namespace flambeau::python {
namespace {

// A descriptor that becomes readable when the process ends; negative where there is none.
int handle_of(pid_t process) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
#else
  errno = ENOSYS;
  return -1;
#endif
}

void wait_for_end(pid_t process) {
  constexpr useconds_t kLookEvery = 200'000;  // us, where the system does not tell
  const int handle = handle_of(process);
  if (handle >= 0) {
    pollfd end{handle, POLLIN, 0};
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
  } else {
    while (kill(process, 0) == 0 || errno != ESRCH) usleep(kLookEvery);
  }
  _exit(1);
}

}  // namespace

void end_with_process(int64_t process) {
  const auto id = static_cast<pid_t>(process);
  check_value(id > 0, "_end_with_process: expected the number of a process, got ", int64_t{id});
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);  // signals are for the threads of Python
  std::thread(wait_for_end, id).detach();
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

}  // namespace flambeau::python
