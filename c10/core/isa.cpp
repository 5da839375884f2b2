#include "c10/core/isa.h"

#include <cstdlib>
#include <string_view>

#include "c10/core/check.h"

namespace flambeau::c10 {
namespace {

#if defined(__x86_64__) && !defined(FLAMBEAU_ONE_ISA)
constexpr const char* kIsaNames[kNumIsas] = {"x86_64", "v3", "v4"};

int best_isa() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return static_cast<int>(Isa::V4);
  if (__builtin_cpu_supports("x86-64-v3")) return static_cast<int>(Isa::V3);
  return static_cast<int>(Isa::X86_64);
}
#else
constexpr const char* kIsaNames[kNumIsas] = {"generic"};

int best_isa() { return 0; }
#endif

int chosen_isa() {
  const int best = best_isa();
  const char* wanted = std::getenv("FLAMBEAU_CPU_ISA");
  if (!wanted) return best;
  for (int i = 0; i < kNumIsas; ++i) {
    if (std::string_view(wanted) != kIsaNames[i]) continue;
    check(i <= best, "FLAMBEAU_CPU_ISA: this processor lacks ", wanted, ", its best level is ",
          kIsaNames[best]);
    return i;
  }
  fail(ErrorKind::Runtime, "FLAMBEAU_CPU_ISA: expected x86_64, v3 or v4, got ", wanted);
}

}  // namespace

int cpu_isa() {
  static const int isa = chosen_isa();
  return isa;
}

const char* name_of(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

}  // namespace flambeau::c10
