#pragma once
// Fourier transforms of many sequences that lie in one row-major tensor along one dimension.
#include <cstdint>

namespace flambeau::fft {

// outer x n x inner: sequence (o, j) has its element k at (o * n + k) * inner + j.
struct Sequences {
  int64_t outer;
  int64_t n;
  int64_t inner;
};

// All arrays hold interleaved complex numbers of T unless called real. `scale` multiplies results.
// forward: e^(-2 pi i jk/n). `in` may be `out`.
template <typename T>
void transform(const T* in, T* out, Sequences s, bool forward, T scale);

// Forward transform of real sequences; the first n / 2 + 1 outputs.
template <typename T>
void transform_real(const T* real_in, T* out, Sequences s, T scale);

// Backward transform to real sequences of n elements from n / 2 + 1 inputs, the others being their
// conjugates. The imaginary part of the first one, and of the last for even n, counts as 0.
template <typename T>
void transform_to_real(const T* in, T* real_out, Sequences s, T scale);

}  // namespace flambeau::fft
