#include "c10/core/isa.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "c10/core/check.h"

// Bit i: loops for Isa(i) are in this build (CMakeLists.txt).
#ifndef FLAMBEAU_COMPILED_ISAS
#define FLAMBEAU_COMPILED_ISAS ~0u
#endif

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

// The names of the levels in this build, separated by commas.
std::string compiled_names() {
  std::string names;
  for (int i = 0; i < kNumIsas; ++i) {
    if (!has_loops_for(static_cast<Isa>(i))) continue;
    if (!names.empty()) names.append(", ");
    names.append(kIsaNames[i]);
  }
  return names;
}

int chosen_isa() {
  const int best = best_isa();
  const char* wanted = std::getenv("FLAMBEAU_CPU_ISA");
  if (!wanted) {
    int isa = best;
    while (isa >= 0 && !has_loops_for(static_cast<Isa>(isa))) --isa;
    check(isa >= 0, "flambeau: expected a processor with one of the levels of this build (",
          compiled_names(), "), got one whose best level is ", kIsaNames[best]);
    return isa;
  }
  for (int i = 0; i < kNumIsas; ++i) {
    if (std::string_view(wanted) != kIsaNames[i]) continue;
    check(i <= best, "FLAMBEAU_CPU_ISA: expected a level of at most ", kIsaNames[best],
          ", the best of this processor, got ", wanted);
    check(has_loops_for(static_cast<Isa>(i)),
          "FLAMBEAU_CPU_ISA: expected one of the levels in this ", "build (", compiled_names(),
          "), got ", wanted);
    return i;
  }
  fail(ErrorKind::Runtime, "FLAMBEAU_CPU_ISA: expected x86_64, v3 or v4, got ", wanted);
}

}  // namespace

int cpu_isa() {
  static const int isa = chosen_isa();
  return isa;
}

bool has_loops_for(Isa isa) { return FLAMBEAU_COMPILED_ISAS >> static_cast<int>(isa) & 1u; }

const char* name_of(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

}  // namespace flambeau::c10
