#pragma once
// _C._profiler_*: what flambeau.profiler asks of the recording of a thread.
#include "aten/dispatch/recording.h"
#include "python/csrc/object.h"

namespace flambeau::python {

void add_profiling(PyObject* module);

// Records a call of a module, where the profiler keeps Python's stack.
class ModuleScope {
 public:
  explicit ModuleScope(PyObject* module) {
    if (recording::is_on()) [[unlikely]]
      enter(module);
  }
  ~ModuleScope() {
    if (log_ && log_ == recording::current) [[unlikely]]
      log_->end(event_);
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  void enter(PyObject* module);
  recording::Log* log_ = nullptr;
  int32_t event_ = -1;
};

}  // namespace flambeau::python
