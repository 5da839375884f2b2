#pragma once
// One long sequence at a time, shared among the threads.
#include <cstdint>

namespace flambeau::fft {

// n contiguous complex numbers, interleaved. `in` may be `out`.
template <typename T>
void transform_row(int64_t n, const T* in, T* out, bool forward, T scale);

// As transform_real and transform_to_real of one contiguous sequence of even length n.
template <typename T>
void transform_real_row(int64_t n, const T* real_in, T* out, T scale);
template <typename T>
void transform_row_to_real(int64_t n, const T* in, T* real_out, T scale);

}  // namespace flambeau::fft
