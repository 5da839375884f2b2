#pragma once
// RECORD_FUNCTION: ranges of C++ programs in profiles, with the inputs that they are given.
#include <vector>

#include "api/value.h"
#include "aten/dispatch/recording.h"

namespace flambeau::api {

enum class RecordScope { FUNCTION, USER_SCOPE };

// An event from `before` to `end` or the end of the scope, if the thread is recorded. Inputs are
// kept where the profile keeps shapes. End it on the thread that it began on.
class RecordFunction {
 public:
  explicit RecordFunction(RecordScope scope = RecordScope::FUNCTION) : scope_(scope) {}
  ~RecordFunction() { end(); }
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

  // Whether the thread is recorded: inputs need not be put together otherwise.
  bool isActive() const { return recording::is_on() && recording::log_of_thread(); }

  void before(std::string_view name, const std::vector<IValue>& inputs = {}) {
    if (!isActive()) return;
    end();
    log_ = recording::log_of_thread();
    if (scope_ == RecordScope::USER_SCOPE && inputs.empty()) {
      event_ = log_->begin(recording::Kind::Range, log_->intern(name));
      return;
    }
    bool takes_tensors = false;
    for (const IValue& input : inputs) takes_tensors |= input.is_tensor();
    event_ = log_->begin(name, takes_tensors);
    if (log_->options.shapes) {
      for (const IValue& input : inputs) log_->note(input);
    }
    log_->launch();
  }
  // The log may have ended in the meantime, and with it the event.
  void end() {
    if (log_ && log_ == recording::log_of_thread()) log_->end(event_);
    log_ = nullptr;
  }

 private:
  RecordScope scope_;
  recording::Log* log_ = nullptr;
  int32_t event_ = -1;
};

}  // namespace flambeau::api

#define FLAMBEAU_RECORD(scope, name, ...)                                     \
  ::flambeau::api::RecordFunction guard(::flambeau::api::RecordScope::scope); \
  if (guard.isActive()) guard.before(name __VA_OPT__(, ) __VA_ARGS__)
#define RECORD_FUNCTION(name, ...) FLAMBEAU_RECORD(FUNCTION, name __VA_OPT__(, ) __VA_ARGS__)
#define RECORD_USER_SCOPE(name) FLAMBEAU_RECORD(USER_SCOPE, name)
#define RECORD_USER_SCOPE_WITH_INPUTS(name, ...) FLAMBEAU_RECORD(USER_SCOPE, name, __VA_ARGS__)
