#pragma once
// The inner loops of the Fourier transform, one table per instruction set. kLanes transforms run
// side by side: element k of lane j stands at [k * kLanes + j] of two arrays, real and imaginary,
// so that every operation is one on whole vectors.
#include "aten/core/loop_types.h"

namespace flambeau::fft {

template <typename T>
inline constexpr int64_t kLanes = 64 / sizeof(T);

// Primes above take Bluestein's algorithm: by its definition a pass costs radix operations per
// element.
inline constexpr int64_t kLargestRadix = 50;

// One pass over each part of radix * blocks elements: `blocks` butterflies of `radix` points that
// are `blocks` apart. `run`: how many parts there are. twiddles: (radix - 1) complex numbers per
// butterfly; roots: the radix-th roots of one.
template <typename T>
struct Pass {
  int64_t radix;
  int64_t blocks;
  int64_t run;
  const T* twiddles;
  const T* roots;
};

// Where the lanes lie in memory, in units of T: element k of lane j at k * step + j * lane_step,
// its imaginary part `imaginary` further on. has_imaginary false: there is none (read as 0).
struct Layout {
  int64_t step;
  int64_t lane_step;
  int64_t imaginary;
  bool has_imaginary = true;
};

template <typename T>
struct Loops {
  // Forward transform of re, im, which are overwritten, to out_re, out_im; at least one pass.
  void (*run)(const Pass<T>* passes, int64_t count, T* re, T* im, T* out_re, T* out_im);
  // `n` elements of `lanes` lanes; the lanes beyond are 0.
  void (*gather)(const T* in, Layout layout, int64_t n, int64_t lanes, T* re, T* im);
  void (*scatter)(const T* re, const T* im, Layout layout, int64_t n, int64_t lanes, T scale,
                  T* out);
  // Element k of every lane times the complex number factors[k].
  void (*multiply)(int64_t n, const T* factors, T* re, T* im);
  // Element k of lane j times starts[k] * steps[k][j]; steps: kLanes real, kLanes imaginary parts.
  void (*twist)(int64_t n, const T* starts, const T* steps, T* re, T* im);
  // In place, the first half + 1 outputs of a real transform of 2 * half points from the complex
  // transform of the pairs, and back. roots[k] = e^(-pi i k / half).
  void (*unpack)(int64_t half, const T* roots, T* re, T* im);
  void (*pack)(int64_t half, const T* roots, T* re, T* im);
};

}  // namespace flambeau::fft
