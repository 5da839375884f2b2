#pragma once
// A random number generator: state, seed and the lock that callers hold while drawing.
#include <mutex>
#include <vector>

#include "c10/core/device.h"
#include "c10/core/intrusive_ptr.h"

namespace flambeau::c10 {

class GeneratorImpl : public RefCounted {
 public:
  explicit GeneratorImpl(Device device) : device_(device) {}
  Device device() const { return device_; }
  std::mutex& mutex() { return mutex_; }
  virtual void set_seed(uint64_t seed) = 0;
  virtual uint64_t seed() const = 0;
  // Opaque bytes that restore the exact position in the stream.
  virtual std::vector<uint8_t> state() const = 0;
  virtual void set_state(const std::vector<uint8_t>& state) = 0;

 private:
  Device device_;
  std::mutex mutex_;
};

using Generator = intrusive_ptr<GeneratorImpl>;

}  // namespace flambeau::c10
