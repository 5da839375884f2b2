#include "api/context.h"

#include "aten/core/determinism.h"
#include "aten/cpu/generator.h"
#include "aten/dispatch/extension_messages.h"

namespace flambeau::api {

Context& globalContext() {
  static Context one;
  return one;
}

bool Context::deterministicAlgorithms() const { return deterministic_mode() > 0; }
bool Context::deterministicAlgorithmsWarnOnly() const { return deterministic_mode() == 1; }
void Context::setDeterministicAlgorithms(bool required, bool warn_only) {
  set_deterministic_mode(!required ? 0 : warn_only ? 1 : 2);
}

void Context::alertNotDeterministic(std::string_view caller) {
  const int mode = deterministic_mode();
  if (mode == 0) return;
  const std::string message = text_of(caller, " does not have a deterministic implementation, but ",
                                      "use_deterministic_algorithms(True) is set: expected an "
                                      "operator that gives the same result in ",
                                      "every run, got one that does not promise it");
  check(mode == 1, message);
  warn_of(message);
}

Generator Context::defaultGenerator(c10::Device device) const {
  check(device.is_cpu(), "defaultGenerator: expected the CPU, got ", device);
  return detail::getDefaultCPUGenerator();
}

Generator detail::getDefaultCPUGenerator() { return Generator::share(&default_cpu_generator()); }

void manual_seed(uint64_t seed) {
  c10::GeneratorImpl& generator = default_cpu_generator();
  const std::lock_guard lock(generator.mutex());
  generator.set_seed(seed);
}

}  // namespace flambeau::api
