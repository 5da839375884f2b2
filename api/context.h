#pragma once
// at::globalContext(): what the process can compute with, and its settings.
#include "api/tensor.h"

namespace flambeau::api {

class Context {
 public:
  static bool hasOpenMP() { return true; }
  static bool hasLAPACK() { return true; }
  static bool hasMKL() { return false; }
  // libflambeau computes on the CPU; kernels for other devices are in the Python package.
  static bool hasCUDA() { return false; }
  static bool hasCUDART() { return false; }
  static bool hasCuDNN() { return false; }
  static bool hasMAGMA() { return false; }
  static bool hasHIP() { return false; }
  static bool hasMPS() { return false; }
  static bool hasXPU() { return false; }
  static bool hasMTIA() { return false; }

  // The settings of `use_deterministic_algorithms`.
  bool deterministicAlgorithms() const;
  bool deterministicAlgorithmsWarnOnly() const;
  void setDeterministicAlgorithms(bool required, bool warn_only);
  // RuntimeError, or a warning, if deterministic algorithms are required: for operators that cannot
  // promise the same results.
  static void alertNotDeterministic(std::string_view caller);

  // RuntimeError for devices other than the CPU.
  Generator defaultGenerator(c10::Device device) const;
  void lazyInitDevice(DeviceType) const {}
  void lazyInitCUDA() const {}
};
Context& globalContext();

namespace detail {
Generator getDefaultCPUGenerator();
}  // namespace detail

inline bool hasMKL() { return Context::hasMKL(); }
inline bool hasLAPACK() { return Context::hasLAPACK(); }
inline bool hasCUDA() { return Context::hasCUDA(); }
// Restarts the default generator.
void manual_seed(uint64_t seed);

}  // namespace flambeau::api
