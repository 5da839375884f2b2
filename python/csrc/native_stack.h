#pragma once
// A limit for calls that alternate between C++ and Python. Python counts only its own frames, and a
// program may raise that limit; the frames of C++ between them overflow the thread's stack first.

namespace flambeau::python {

// Throws CarriedError with a RecursionError where less than 256 KiB, or a quarter, of the thread's
// stack are left.
// A stack that is not the thread's own, such as that of a greenlet, is not checked.
void check_native_stack();

}  // namespace flambeau::python
