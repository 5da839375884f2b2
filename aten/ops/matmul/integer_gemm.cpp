#include "aten/ops/matmul/integer_gemm.h"

#include "aten/core/loop_table.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/matmul/integer_product.h"
#include "c10/core/scalar_type.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(gemm::IntegerLoop, integer_gemm)

namespace gemm {

void multiply_integers(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                       bool accumulate) {
  static const LoopTable<IntegerLoop> table = FLAMBEAU_LOOP_TABLE(integer_gemm);
  const auto width = static_cast<int64_t>(element_size(dtype));
  const IntegerLoop* const loops = table.get();
  // By width; uint8 and int8 differ in nothing but the bits above the eighth, which are dropped.
  const IntegerLoop loop = loops[width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3];
  parallel_for(0, a.rows, b.cols * a.cols * width, [&](int64_t begin, int64_t end) {
    const char* left = static_cast<const char*>(a.data) + begin * a.row_stride * width;
    loop({end - begin,
          b.cols,
          a.cols,
          {left, a.row_stride, a.col_stride},
          {b.data, b.row_stride, b.col_stride},
          static_cast<char*>(out) + begin * ldc * width,
          ldc,
          accumulate});
  });
}

}  // namespace gemm
}  // namespace flambeau
