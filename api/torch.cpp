#include "api/torch.h"

#include "aten/cpu/generator.h"

namespace flambeau::api {

void manual_seed(uint64_t seed) {
  c10::GeneratorImpl& generator = default_cpu_generator();
  const std::lock_guard lock(generator.mutex());
  generator.set_seed(seed);
}

}  // namespace flambeau::api
