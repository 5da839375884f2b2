// OpenCL C that the generated texts call: functions that end in `_of`, over the compute type T.
#include "kernels.h"

namespace flambeau_opencl {

namespace {

constexpr const char* kPrelude = R"cl(
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef struct { long elements, dims, sizes[8], strides[6][8], offsets[6]; } Geometry;
#define read_plain(p, i) ((p)[i])
#define write_plain(p, i, x) (p)[i] = (x)
#define read_half(p, i) vload_half((i), (p))
#define write_half(p, i, x) vstore_half_rte((float)(x), (i), (p))
#define read_bfloat(p, i) as_float((uint)(p)[i] << 16)
#define write_bfloat(p, i, x) (p)[i] = upper_half_of((float)(x))
// The nearest bfloat16; of two as near ones the even one.
inline ushort upper_half_of(float x) {
  const uint bits = as_uint(x);
  return x != x ? (ushort)0x7fc0 : (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#ifdef COMPLEX
// T is a vector of the real and the imaginary part.
typedef COMPLEX REAL;
#define FROM_REAL(x) ((T)((REAL)(x), (REAL)0))
inline int equal_of(T a, T b) { return a.x == b.x && a.y == b.y; }
inline T conj_of(T x) { return (T)(x.x, -x.y); }
inline T mul_of(T a, T b) { return (T)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
// The larger part of the divisor divides the smaller one, so that squares do not overflow.
inline T div_of(T a, T b) {
  if (fabs(b.x) >= fabs(b.y)) {
    const REAL ratio = b.x == 0 ? b.y : b.y / b.x, all = b.x + ratio * b.y;
    return (T)((a.x + a.y * ratio) / all, (a.y - a.x * ratio) / all);
  }
  const REAL ratio = b.x / b.y, all = b.x * ratio + b.y;
  return (T)((a.x * ratio + a.y) / all, (a.y * ratio - a.x) / all);
}
inline T sign_of(T x) {
  const REAL size = hypot(x.x, x.y);
  return size == 0 ? FROM_REAL(0) : x / size;
}
inline T exp_of(T x) {
  const REAL size = exp(x.x);
  return x.y == 0 ? (T)(size, x.y) : (T)(size * cos(x.y), size * sin(x.y));
}
inline T log_of(T x) { return (T)(log(hypot(x.x, x.y)), atan2(x.y, x.x)); }
inline T sqrt_of(T x) {
  if (x.x == 0 && x.y == 0) return (T)(0, x.y);
  const REAL half_root = sqrt((hypot(x.x, x.y) + fabs(x.x)) / 2);
  const REAL other = x.y / (2 * half_root);
  return x.x >= 0 ? (T)(half_root, other) : (T)(fabs(other), copysign(half_root, x.y));
}
inline T sin_of(T x) { return (T)(sin(x.x) * cosh(x.y), cos(x.x) * sinh(x.y)); }
inline T cos_of(T x) { return (T)(cos(x.x) * cosh(x.y), -(sin(x.x) * sinh(x.y))); }
inline T sinh_of(T x) { return (T)(sinh(x.x) * cos(x.y), cosh(x.x) * sin(x.y)); }
inline T cosh_of(T x) { return (T)(cosh(x.x) * cos(x.y), sinh(x.x) * sin(x.y)); }
inline T tanh_of(T x) {
  if (fabs(x.x) > 20) return (T)(copysign((REAL)1, x.x), copysign((REAL)0, sin(2 * x.y)));
  const REAL all = cosh(2 * x.x) + cos(2 * x.y);
  return (T)(sinh(2 * x.x) / all, sin(2 * x.y) / all);
}
inline int isnan_of(T x) { return x.x != x.x || x.y != x.y; }
inline int isinf_of(T x) { return fabs(x.x) == INFINITY || fabs(x.y) == INFINITY; }
inline int isfinite_of(T x) { return x.x - x.x == 0 && x.y - x.y == 0; }
#else
#define FROM_REAL(x) ((T)(x))
inline T sign_of(T x) { return (T)((x > (T)0) - (x < (T)0)); }
inline T square_of(T x) { return (T)(x * x); }
#ifdef FLOATING
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
inline T abs_of(T x) { return fabs(x); }
inline T maximum_of(T a, T b) { return a != a || a > b ? a : b; }
inline T minimum_of(T a, T b) { return a != a || a < b ? a : b; }
inline T fmax_of(T a, T b) { return fmax(a, b); }
inline T fmin_of(T a, T b) { return fmin(a, b); }
inline T fmod_of(T a, T b) { return fmod(a, b); }
inline T remainder_of(T a, T b) {
  const T rest = fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
inline T floor_divide_of(T a, T b) {
  if (b == 0) return a / b;
  const T rest = fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= (T)1;
  if (quotient == 0) return copysign((T)0, a / b);
  const T whole = floor(quotient);
  return quotient - whole > (T)0.5 ? whole + (T)1 : whole;
}
inline T trunc_divide_of(T a, T b) { return trunc(a / b); }
inline T pow_of(T a, T b) { return pow(a, b); }
inline T floor_of(T x) { return floor(x); }
inline T ceil_of(T x) { return ceil(x); }
inline T round_of(T x) { return rint(x); }
inline T trunc_of(T x) { return trunc(x); }
inline int isnan_of(T x) { return x != x; }
inline int isinf_of(T x) { return fabs(x) == INFINITY; }
inline int isfinite_of(T x) { return x - x == 0; }
inline int signbit_of(T x) { return signbit(x) != 0; }
inline T sigmoid_of(T x) { return 1 / (1 + exp(-x)); }
inline T softplus_of(T x) { return (x > 0 ? x : (T)0) + log1p(exp(-fabs(x))) + (x != x ? x : (T)0); }
inline T log_sigmoid_of(T x) { return (x < 0 ? x : (T)0) - log1p(exp(-fabs(x))) + (x != x ? x : (T)0); }
inline T logaddexp_of(T a, T b) {
  const T top = maximum_of(a, b);
  return a == b ? a + (T)0.693147180559945309417 : top != top ? top : top + log1p(exp(-fabs(a - b)));
}
inline T logaddexp2_of(T a, T b) {
  const T top = maximum_of(a, b);
  const T less = log1p(exp2(-fabs(a - b))) * (T)1.44269504088896340736;
  return a == b ? a + (T)1 : top != top ? top : top + less;
}
inline T xlogy_of(T x, T y) { return y != y ? y : x == 0 ? (T)0 : x * log(y); }
inline T xlog1py_of(T x, T y) { return y != y ? y : x == 0 ? (T)0 : x * log1p(y); }
inline T sinc_of(T x) {
  const T angle = x * (T)3.14159265358979323846;
  return x == 0 ? (T)1 : sin(angle) / angle;
}
inline T normal_cdf_of(T x) { return (T)0.5 * erfc(-x * (T)0.707106781186547524401); }
#else
#define LOWEST SMALLEST
#define HIGHEST LARGEST
inline T abs_of(T x) { return x < (T)0 ? (T)-x : x; }
inline T maximum_of(T a, T b) { return a > b ? a : b; }
inline T minimum_of(T a, T b) { return a < b ? a : b; }
inline T fmax_of(T a, T b) { return maximum_of(a, b); }
inline T fmin_of(T a, T b) { return minimum_of(a, b); }
inline T floor_of(T x) { return x; }
inline T ceil_of(T x) { return x; }
inline T round_of(T x) { return x; }
inline T trunc_of(T x) { return x; }
inline int isnan_of(T x) { return 0; }
inline int isinf_of(T x) { return 0; }
inline int isfinite_of(T x) { return 1; }
inline int signbit_of(T x) { return x < (T)0; }
#ifndef BOOLEAN
inline T bitwise_not_of(T x) { return (T)~x; }
inline T pow_of(T base, T exponent) {
  if (exponent < (T)0) return base == (T)1 ? (T)1 : base == (T)-1 ? (exponent & 1 ? (T)-1 : (T)1) : (T)0;
  T power = 1;
  for (; exponent; exponent >>= 1, base = (T)(base * base)) {
    if (exponent & 1) power = (T)(power * base);
  }
  return power;
}
inline T left_shift_of(T x, T count) {
  return (ulong)count >= 8 * sizeof(T) ? (T)0 : (T)((ulong)x << count);
}
inline T right_shift_of(T x, T count) {
  if ((ulong)count >= 8 * sizeof(T)) return x < (T)0 ? (T)-1 : (T)0;
  return (T)(x >> count);
}
inline T gcd_of(T a, T b) {
  while (b) {
    const T rest = a % b;
    a = b;
    b = rest;
  }
  return abs_of(a);
}
inline T lcm_of(T a, T b) {
  const T g = gcd_of(a, b);
  return g ? abs_of((T)(a / g * b)) : (T)0;
}
#else
inline T bitwise_not_of(T x) { return !x; }
#endif
#endif
#endif
)cl";

}  // namespace

std::string prelude() { return kPrelude; }

}  // namespace flambeau_opencl
