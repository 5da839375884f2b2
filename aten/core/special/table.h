#pragma once
// Coefficients that host and device code read: device code sees no host variable, constexpr or not.
#ifdef __CUDACC__
#define FLAMBEAU_SPECIAL_TABLE static __device__ constexpr
#else
#define FLAMBEAU_SPECIAL_TABLE inline constexpr
#endif
