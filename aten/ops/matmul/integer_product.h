#pragma once
// One product of integer matrices and the type of the loops that compute it.
#include <stdint.h>

#include "c10/core/namespace.h"

namespace flambeau::gemm {

// Strides in elements.
struct IntegerProduct {
  struct Operand {
    const void* data;
    int64_t row_stride, col_stride;
  };
  int64_t m, n, k;
  Operand a, b;
  void* c;  // row-major, rows `ldc` elements apart
  int64_t ldc;
  bool accumulate;  // c += a * b instead of c = a * b
};
using IntegerLoop = void (*)(const IntegerProduct& product);

}  // namespace flambeau::gemm
