#pragma once
// A mutex for data of the whole process. A fork takes it first, so that the child finds it free and
// the data whole, whatever other threads were doing. What holds it must neither wait for another
// such mutex nor fork.
#include <mutex>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

class ForkMutex {
 public:
  ForkMutex();  // the object must live as long as the process
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace flambeau::c10
