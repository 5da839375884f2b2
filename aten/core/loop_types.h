#pragma once
// The shape of generated loops. Loop files are compiled once per instruction set and include only
// this and aten/cpu/vecmath.h, so it must stay free of library headers.
#include "c10/core/namespace.h"
#include "c10/core/scalar_type_id.h"

// The table of loops of one operator for the instruction set being compiled: silu_loops_v3.
#define FLAMBEAU_JOIN_LOOPS(name, isa) name##_loops_##isa
#define FLAMBEAU_EXPAND_LOOPS(name, isa) FLAMBEAU_JOIN_LOOPS(name, isa)
#define FLAMBEAU_LOOPS(name) FLAMBEAU_EXPAND_LOOPS(name, FLAMBEAU_ISA)

namespace flambeau {

inline constexpr int kMaxParams = 8;
inline constexpr int kMaxOperands = 8;

// data[0] is the output, data[1..] the operands: contiguous, n elements of the loop's types. An
// operand may be the output itself, element for element. `params`: values of the compute type in
// 16-byte slots. Returns error bits.
using PointwiseLoop = uint32_t (*)(int64_t n, char* const* data, const void* params);
inline constexpr uint32_t kIntegerDivisionByZero = 1;

// One reduction for one compute type; `acc` points to accumulators of the loop's own type.
struct ReduceLoops {
  void (*init)(int64_t n, void* acc);
  // acc[r] = combine(acc[r], map(in[.][i])) over contiguous fibers of n elements, in several
  // partial accumulators; `steps`: bytes from a fiber to the next, per operand.
  void (*inner)(int64_t fibers, int64_t n, char* const* in, const int64_t* steps, int operands,
                const void* params, void* acc);
  // acc[j] = combine(acc[j], map(in[.][j]))
  void (*outer)(int64_t n, char* const* in, const void* params, void* acc);
  // acc[j] = combine(acc[j], other[j])
  void (*merge)(int64_t n, const void* other, void* acc);
  // out[j] = finish(acc[j], kept[.][j]); `count` elements were reduced; `kept`: the let tensors.
  void (*finish)(int64_t n, const void* acc, char* const* kept, const void* params, int64_t count,
                 char* out);
};

}  // namespace flambeau
