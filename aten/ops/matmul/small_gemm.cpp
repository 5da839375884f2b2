#include "aten/ops/matmul/small_gemm.h"

#include <algorithm>

#include "aten/core/loop_table.h"
#include "aten/cpu/parallel.h"
#include "c10/core/scalar_type.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(gemm::SmallLoops, small_gemm)

namespace gemm {
namespace {

constexpr int64_t kFewRows = 32;
constexpr int64_t kFewRowsDepth = 512;         // rows of b, which stay in the second-level cache
constexpr int64_t kFewRowsRight = 256 * 1024;  // its elements

const SmallLoops& loops_for(ScalarType dtype) {
  static const LoopTable<SmallLoops> table = FLAMBEAU_LOOP_TABLE(small_gemm);
  return table[dtype == ScalarType::Float64];
}

}  // namespace

bool multiply_few_rows(ScalarType dtype, const SmallProducts& product, const void* addend,
                       int64_t addend_stride) {
  const SmallProducts& p = product;
  const bool few = p.m <= kFewRows / 2 || (p.m <= kFewRows && p.m % 8 == 0);  // tiles of 8 rows
  const bool fits = few && p.k <= kFewRowsDepth && p.n * p.k <= kFewRowsRight && p.n % 16 == 0 &&
                    p.b.col_stride == 1;
  if (dtype != ScalarType::Float32 || !fits) return false;
  const auto multiply = loops_for(dtype).multiply_strips;
  if (!multiply) return false;
  // Strips of three vectors: the last one may be shorter, and no other is.
  parallel_for(0, (p.n / 16 + 2) / 3, p.m * p.k * 48 / 4, [&](int64_t begin, int64_t end) {
    multiply(p, static_cast<const float*>(addend), addend_stride, begin * 3,
             std::min(end * 3, p.n / 16));
  });
  return true;
}

bool is_small(ScalarType dtype, int64_t m, int64_t n, int64_t k) {
  if (dtype != ScalarType::Float32 && dtype != ScalarType::Float64) return false;
  return k <= kSmallDepth && n <= kSmallColumns && m * n * k <= kSmallWork;
}

void multiply_small(ScalarType dtype, const SmallProducts& products) {
  const SmallLoops& loops = loops_for(dtype);
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
