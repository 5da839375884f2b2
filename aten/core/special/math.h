#pragma once
// What the special functions need of the C library, in host and device code.
#include "c10/core/complex.h"

#ifdef __CUDACC__
#define FLAMBEAU_SPECIAL __host__ __device__ inline
#else
#define FLAMBEAU_SPECIAL inline
#include <cmath>
#endif
#include <cstdint>

namespace flambeau::special {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kSqrtPi = 1.77245385090551602730;
inline constexpr double kSqrtHalf = 0.70710678118654752440;

FLAMBEAU_SPECIAL double not_a_number() { return __builtin_nan(""); }
FLAMBEAU_SPECIAL double infinity() { return __builtin_inf(); }
FLAMBEAU_SPECIAL bool is_infinite(double x) { return x == infinity() || x == -infinity(); }

}  // namespace flambeau::special
