#include "aten/ops/matmul/small_gemm.h"

#include "aten/core/loop_types.h"
#include "aten/cpu/parallel.h"
#include "c10/core/isa.h"
#include "c10/core/scalar_type.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(gemm::SmallLoops, small_gemm)

namespace gemm {

bool is_small(ScalarType dtype, int64_t m, int64_t n, int64_t k) {
  if (dtype != ScalarType::Float32 && dtype != ScalarType::Float64) return false;
  return k <= kSmallDepth && n <= kSmallColumns && m * n * k <= kSmallWork;
}

void multiply_small(ScalarType dtype, const SmallProducts& products) {
  static const SmallLoops* const tables[] = FLAMBEAU_ALL_LOOPS(small_gemm);
  const SmallLoops& loops = tables[cpu_isa()][dtype == ScalarType::Float64];
  const auto width = static_cast<int64_t>(element_size(dtype));
  const int64_t cost = products.m * products.n * products.k / 4 + 1;
  parallel_for(0, products.count, cost, [&](int64_t begin, int64_t end) {
    SmallProducts part = products;
    const auto advance = [&](const void* data, int64_t step) {
      return static_cast<const char*>(data) + begin * step * width;
    };
    part.count = end - begin;
    part.a.data = advance(part.a.data, part.a.step);
    part.b.data = advance(part.b.data, part.b.step);
    part.c = const_cast<char*>(advance(part.c, part.c_step));
    loops.multiply(part);
  });
}

}  // namespace gemm
}  // namespace flambeau
