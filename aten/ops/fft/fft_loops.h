#pragma once
// The inner loops of the Fourier transform, one table per instruction set. As many transforms as
// its vectors have lanes run side by side: element k of lane j stands at [k * lanes + j] of two
// arrays, real and imaginary, so that every operation is one on whole vectors.
#include "aten/core/loop_types.h"

namespace flambeau::fft {

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
// its imaginary part `imaginary` units later. has_imaginary false: there is none (read as 0).
struct Layout {
  int64_t step;
  int64_t lane_step;
  int64_t imaginary;
  bool has_imaginary = true;
};

template <typename T>
struct Loops {
  int64_t lanes;  // a power of two
  // Which of `lanes` sequences `lane` holds: not in order, so that separating parts needs no more
  // than one shuffle.
  int (*sequence_in)(int lane);
  // Forward transform of re, im, which are overwritten, to out_re, out_im; at least one pass.
  void (*run)(const Pass<T>* passes, int64_t count, T* re, T* im, T* out_re, T* out_im);
  // `n` elements of `lanes` lanes; the lanes beyond are 0.
  void (*gather)(const T* in, Layout layout, int64_t n, int64_t lanes, T* re, T* im);
  // The same of `groups` times `lanes` neighbouring complex sequences at once, one line of memory
  // after the other; `layout` as of the first one.
  void (*gather_groups)(const T* in, Layout layout, int64_t n, int64_t groups, T* const* re,
                        T* const* im);
  void (*scatter_groups)(T* const* re, T* const* im, Layout layout, int64_t n, int64_t groups,
                         T scale, T* out);
  void (*scatter)(T* re, T* im, Layout layout, int64_t n, int64_t lanes, T scale, T* out);
  // Element k of every lane times the complex number factors[k].
  void (*multiply)(int64_t n, const T* factors, T* re, T* im);
  // Element k of lane j times starts[k] * steps[k][j]; steps: `lanes` real, `lanes` imaginary
  // parts.
  void (*twist)(int64_t n, const T* starts, const T* steps, T* re, T* im);
  // In place, the first half + 1 outputs of a real transform of 2 * half points from the complex
  // transform of the pairs, and back. roots[k] = e^(-pi i k / half).
  void (*unpack)(int64_t half, const T* roots, T* re, T* im);
  void (*pack)(int64_t half, const T* roots, T* re, T* im);
};

// Around the transforms of one sequence whose elements are the lanes (row_plan.h).
template <typename T>
struct RowLoops {
  // Element k * lanes + sequence_in(j) to [k * lanes + j], parts separated; k < vectors.
  void (*split)(const T* in, int64_t vectors, T* re, T* im);
  // Transforms across the lanes: out[k + count * t] for k < count and t < lanes. twiddles: for each
  // k `lanes` real and `lanes` imaginary parts. exchanged: the parts of `out` change places.
  void (*across)(const T* re, const T* im, int64_t count, const T* twiddles, T scale,
                 bool exchanged, T* out);
};

// Around the transforms of a few sequences side by side, each by vectors of its own elements
// (row_group.h). Real and imaginary parts lie in arrays of their own, elements in order.
template <typename T>
struct GroupLoops {
  // `vectors` vectors of interleaved numbers to parts, and back, times scale.
  void (*split)(const T* in, int64_t vectors, T* re, T* im);
  void (*join)(const T* re, const T* im, int64_t vectors, T scale, T* out);
  // In place, the transforms of `count` vectors of each of `rows` sequences that follow each other,
  // where one butterfly is all; false where it is not.
  bool (*down)(int64_t rows, int64_t count, T* re, T* im);
  // Transforms across the lanes of `rows` sequences of `count` vectors: those of sequence r go to
  // out_re, out_im + r * (count + 1) * lanes, element k + count * t for k < count and t < lanes.
  // What lies behind its last element is overwritten. twiddles: as RowLoops, in the same order for
  // each sequence. Several sequences have no more vectors than there are lanes.
  void (*across)(const T* re, const T* im, int64_t count, int64_t rows, const T* twiddles,
                 T* out_re, T* out_im);
  // As Loops::unpack and Loops::pack of one sequence, to and from interleaved numbers.
  // roots: half / 2 + lanes real, then as many imaginary parts. At least two vectors.
  void (*unpack)(int64_t half, const T* roots, T scale, const T* re, const T* im, T* out);
  void (*pack)(int64_t half, const T* roots, const T* in, T* re, T* im);
};

}  // namespace flambeau::fft
