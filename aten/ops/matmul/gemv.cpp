#include "aten/ops/matmul/gemv.h"

#include <cstring>
#include <vector>

#include "aten/core/loop_table.h"
#include "aten/cpu/parallel.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(gemv::Loops, gemv)

namespace gemv {

bool multiply(const Tensor& matrix, const void* vector, int64_t vector_stride, void* out) {
  const ScalarType dtype = matrix.dtype();
  if (dtype != ScalarType::Float32 && dtype != ScalarType::Float64) return false;
  const int64_t m = matrix.size(0), n = matrix.size(1);
  const bool by_rows = matrix.stride(1) == 1 || n == 1;
  if (m == 0 || n == 0 || (!by_rows && matrix.stride(0) != 1)) return false;
  static const LoopTable<Loops> table = FLAMBEAU_LOOP_TABLE(gemv);
  const Loops& loops = table[dtype == ScalarType::Float64];
  const auto width = static_cast<int64_t>(element_size(dtype));
  std::vector<char> gathered;
  if (vector_stride != 1) {
    gathered.resize(static_cast<size_t>(n * width));
    for (int64_t j = 0; j < n; ++j) {
      std::memcpy(&gathered[static_cast<size_t>(j * width)],
                  static_cast<const char*>(vector) + j * vector_stride * width,
                  static_cast<size_t>(width));
    }
    vector = gathered.data();
  }
  const char* a = static_cast<const char*>(matrix.data());
  parallel_for(0, m, n * width, [&](int64_t begin, int64_t end) {
    char* y = static_cast<char*>(out) + begin * width;
    if (by_rows) {
      loops.rows(end - begin, n, a + begin * matrix.stride(0) * width, matrix.stride(0), vector, y);
    } else {
      loops.columns(end - begin, n, a + begin * width, matrix.stride(1), vector, y);
    }
  });
  return true;
}

}  // namespace gemv
}  // namespace flambeau
