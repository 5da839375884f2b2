#include "python/csrc/native_stack.h"

#include <Python.h>
#include <pthread.h>

#include <cstdint>

#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

constexpr uintptr_t kReserve = uintptr_t{256} << 10;  // for kernels, and for the error itself

// The lowest address of the thread's stack, or 0 where the system does not tell.
uintptr_t lowest_address() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) != 0) lowest = nullptr;
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uintptr_t>(lowest);
}

}  // namespace

void check_native_stack() {
  thread_local const uintptr_t lowest = lowest_address();
  // Below `lowest`, the difference wraps around and is large.
  if (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - lowest >= kReserve) return;
  PyErr_SetString(PyExc_RecursionError,
                  "maximum recursion depth exceeded: the thread's stack is used up");
  throw CarriedError();
}

}  // namespace flambeau::python
