#include "python/csrc/native_stack.h"

#include <Python.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>

#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

constexpr uintptr_t kReserve = uintptr_t{64} << 10;  // for kernels, and for the error itself

// The end of the thread's stack; nothing is reserved where the system does not tell.
struct StackEnd {
  uintptr_t lowest = 0, reserve = 0;
};
StackEnd end_of_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* lowest = nullptr;
  size_t size = 0;
  const bool is_known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!is_known) return {};
  return {reinterpret_cast<uintptr_t>(lowest), std::min<uintptr_t>(kReserve, size / 2)};
}

}  // namespace

void check_native_stack() {
  thread_local const StackEnd end = end_of_stack();
  // Below `lowest`, the difference wraps around and is large.
  if (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - end.lowest >= end.reserve) return;
  PyErr_SetString(PyExc_RecursionError,
                  "maximum recursion depth exceeded: the thread's stack is used up");
  throw CarriedError();
}

}  // namespace flambeau::python
