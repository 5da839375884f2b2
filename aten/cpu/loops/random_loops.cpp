// Uniform numbers on a grid of 2^-24 and 2^-53 from the low bits of a draw, scaled by one fused
// operation. Box-Muller on blocks of 16 uniform floats: with u1 = 1 - data[j] and u2 = data[j + 8],
// j < 8,
//   data[j], data[j + 8] = sqrt(-2 log u1) * (cos, sin)(2 pi u2) * std + mean.
// Compiled once per instruction set. The logarithm, sine and cosine are Cephes' single precision
// polynomials (Moshier 1989) with each product and sum fused, in the order in which PyTorch's AVX2
// kernel evaluates them: equal seeds give equal bits. Arguments are finite and u1 > 0.
#include "aten/cpu/random_loops.h"

#include "aten/cpu/vecmath.h"

namespace flambeau::loops {
namespace {

[[gnu::always_inline]] inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

[[gnu::always_inline]] inline float log_of(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const float fraction = __builtin_bit_cast(float, (bits & 0x007fffffu) | 0x3f000000u);
  const bool small = fraction < 0.707106781186547524f;
  const float exponent =
      static_cast<float>(static_cast<int32_t>(bits >> 23) - 0x7e - (small ? 1 : 0));
  const float x = (fraction - 1.0f) + (small ? fraction : 0.0f);
  const float z = x * x;
  float y = fused(7.0376836292e-2f, x, -1.1514610310e-1f);
  y = fused(y, x, 1.1676998740e-1f);
  y = fused(y, x, -1.2420140846e-1f);
  y = fused(y, x, 1.4249322787e-1f);
  y = fused(y, x, -1.6668057665e-1f);
  y = fused(y, x, 2.0000714765e-1f);
  y = fused(y, x, -2.4999993993e-1f);
  y = fused(y, x, 3.3333331174e-1f);
  y = fused(y * x, z, exponent * -2.12194440e-4f) - z * 0.5f;
  return fused(exponent, 0.693359375f, x + y);
}

struct SinCos {
  float sin;
  float cos;
};

// Octants are folded onto [-pi/4, pi/4]; pi/4 is subtracted in three parts.
[[gnu::always_inline]] inline SinCos sin_cos_of(float angle) {
  const int32_t octant = (static_cast<int32_t>(angle * 1.27323954473516f) + 1) & ~1;
  const float turns = static_cast<float>(octant);
  float x = fused(turns, -0.78515625f, angle);
  x = fused(turns, -2.4187564849853515625e-4f, x);
  x = fused(turns, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float cosine = fused(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  cosine = fused(cosine, z, 4.166664568298827e-2f) * z;
  cosine = fused(cosine, z, -(z * 0.5f)) + 1.0f;
  float sine = fused(-1.9515295891e-4f, z, 8.3321608736e-3f);
  sine = fused(sine, z, -1.6666654611e-1f) * z;
  sine = fused(sine, x, x);
  const bool swapped = (octant & 2) != 0;
  const float first = swapped ? cosine : sine;
  const float second = swapped ? sine : cosine;
  return {(octant & 4) != 0 ? -first : first, ((octant + 2) & 4) != 0 ? -second : second};
}

void uniform_float(int64_t n, const uint32_t* raw, float* out, float from, float to) {
  const float range = to - from;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float unit = static_cast<float>(static_cast<int32_t>(raw[i] & 0xffffffu)) * 0x1p-24f;
    const float value = fused(unit, range, from);
    out[i] = value == to ? from : value;
  }
}

void uniform_double(int64_t n, const uint32_t* raw, double* out, double from, double to) {
  const double range = to - from;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = uint64_t{raw[2 * i] & 0x1fffffu} << 32 | raw[2 * i + 1];
    const double unit = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-53;
    const double value = __builtin_fma(unit, range, from);
    out[i] = value == to ? from : value;
  }
}

void normal_blocks(int64_t n, float* data, float mean, float std) {
  for (int64_t i = 0; i < n; i += 16) {
    float* block = data + i;
#pragma omp simd
    for (int j = 0; j < 8; ++j) {
      const float radius = __builtin_sqrtf(-2.0f * log_of(1.0f - block[j]));
      const SinCos direction = sin_cos_of(6.283185307179586f * block[j + 8]);
      block[j] = fused(radius * direction.cos, std, mean);
      block[j + 8] = fused(radius * direction.sin, std, mean);
    }
  }
}

}  // namespace

extern const RandomLoops FLAMBEAU_LOOPS(random)[1];
const RandomLoops FLAMBEAU_LOOPS(random)[1] = {{&uniform_float, &uniform_double, &normal_blocks}};

}  // namespace flambeau::loops
