#pragma once
// Sums of Chebyshev series, for the fits of the special functions.
#include "aten/core/special/math.h"

namespace flambeau::special {

// Sum of c[k] T_k(t) by Clenshaw's recurrence.
template <int N>
FLAMBEAU_SPECIAL double chebyshev_sum(const double (&c)[N], double t) {
  double next = 0, after = 0;
  for (int k = N - 1; k > 0; --k) {
    const double here = 2 * t * next - after + c[k];
    after = next;
    next = here;
  }
  return t * next - after + c[0];
}

}  // namespace flambeau::special
