#pragma once
// The instruction sets for which loops are compiled, and the one that this process uses.
#include "c10/core/namespace.h"

namespace flambeau::c10 {

#if defined(__x86_64__) && !defined(FLAMBEAU_ONE_ISA)
// x86-64 psABI levels: baseline (SSE2), v3 (AVX2, FMA, F16C), v4 (AVX-512 F/BW/CD/DQ/VL).
enum class Isa : int { X86_64, V3, V4 };
inline constexpr int kNumIsas = 3;
#else
enum class Isa : int { Generic };
inline constexpr int kNumIsas = 1;
#endif

// Index into per-ISA tables: the best level that this processor and this build have. The
// environment variable FLAMBEAU_CPU_ISA (x86_64, v3, v4) lowers it, for tests; it is read once.
// RuntimeError if the processor has none of the build's levels.
int cpu_isa();
// Whether loops for `isa` were compiled: all of them, unless the build was for one instruction set.
bool has_loops_for(Isa isa);
const char* name_of(Isa isa);

}  // namespace flambeau::c10
