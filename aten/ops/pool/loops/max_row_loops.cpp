// Maxima over windows of rows, without their places. Compiled once per instruction set. Windows
// inside a row are computed side by side, up to kTogether elements of each in registers; those that
// reach into padding one by one.
// Formula: the maximum of each window.
// Accumulates in: none: values are moved.
// NaN, infinity: NaN wins; a window without elements gives -inf. Of zeros the first one is taken.
// Error: none: exact.
// Source: by definition.
#include "aten/cpu/loop_support.h"
#include "aten/ops/pool/pool_loops.h"

namespace flambeau::loops {
namespace {

using pool::RowWindows;

constexpr int64_t kTogether = 4;

// The larger number; the first of two zeros, and of a number and NaN either one. One instruction.
template <typename T>
[[gnu::always_inline]] inline T larger(T top, T x) {
  return x > top ? x : top;
}
// out[i] = the largest of kCount elements of window i, and of out[i] unless they are its first.
template <int kStep, int64_t kCount, bool kFirst, typename T>
[[gnu::always_inline]] inline void add_pair(const T* in, int64_t step, int64_t apart, int64_t count,
                                            T* out) {
  const int64_t width = kStep == 0 ? step : kStep;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    T top = kFirst ? in[i * width] : out[i];
#pragma GCC unroll 2
    for (int64_t j = kFirst; j < kCount; ++j) {
      const T x = in[i * width + j * apart];
      top = pool::takes_place(x, top) ? x : top;
    }
    out[i] = top;
  }
}
// The same of three or four elements, where one comparison finds a NaN in two of them.
template <int kStep, int64_t kCount, bool kFirst, typename T>
[[gnu::always_inline]] inline void add_pairs(const T* in, int64_t step, int64_t apart,
                                             int64_t count, T* out) {
  const int64_t width = kStep == 0 ? step : kStep;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const T* at = in + i * width;
    T top = kFirst ? at[0] : out[i];
    bool nan = !kFirst & (top != top);
    nan |= __builtin_isunordered(at[0], at[apart]);
    nan |= __builtin_isunordered(at[2 * apart], at[(kCount - 1) * apart]);
#pragma GCC unroll 4
    for (int64_t j = kFirst; j < kCount; ++j) top = larger(top, at[j * apart]);
    out[i] = nan ? static_cast<T>(__builtin_nan("")) : top;
  }
}
template <int kStep, bool kFirst, typename T>
[[gnu::always_inline]] inline void add_elements(const T* in, int64_t elements, int64_t step,
                                                int64_t apart, int64_t count, T* out) {
  if (elements >= 4) return add_pairs<kStep, 4, kFirst>(in, step, apart, count, out);
  if (elements == 3) return add_pairs<kStep, 3, kFirst>(in, step, apart, count, out);
  if (elements == 2) return add_pair<kStep, 2, kFirst>(in, step, apart, count, out);
  add_pair<kStep, 1, kFirst>(in, step, apart, count, out);
}
// Windows inside the row, in runs whose results stay in the L1 cache.
template <int kStep, typename T>
void run_of_windows(const RowWindows& w, const T* in, int64_t windows, T* out) {
  constexpr int64_t kRun = 1024;
  for (int64_t begin = 0; begin < windows; begin += kRun) {
    const int64_t count = windows - begin < kRun ? windows - begin : kRun;
    const T* first = in + begin * w.step;
    add_elements<kStep, true>(first, w.size, w.step, w.apart, count, out + begin);
    for (int64_t j = kTogether; j < w.size; j += kTogether)
      add_elements<kStep, false>(first + j * w.apart, w.size - j, w.step, w.apart, count,
                                 out + begin);
  }
}

// Window k, whose elements may lie outside the row.
template <typename T>
T max_of_window(const RowWindows& w, const T* row, int64_t k) {
  const int64_t first = k * w.step - w.padding;
  const int64_t skipped = first < 0 ? (-first + w.apart - 1) / w.apart : 0;
  T top = loops::lowest<T>();
  for (int64_t j = skipped; j < w.size && first + j * w.apart < w.in; ++j) {
    const T x = row[first + j * w.apart];
    top = pool::takes_place(x, top) ? x : top;
  }
  return top;
}

template <typename T>
void max_rows(const RowWindows& w, int64_t rows, const void* in, void* out) {
  const int64_t slack = w.in - 1 - (w.size - 1) * w.apart + w.padding;
  const int64_t before = (w.padding + w.step - 1) / w.step,
                within = slack < 0 ? 0 : slack / w.step + 1;
  const int64_t begin = before < w.out ? before : w.out;
  const int64_t inside = within < w.out ? within : w.out;
  const int64_t end = inside < begin ? begin : inside;
  constexpr decltype(&run_of_windows<0, T>) kRuns[] = {
      &run_of_windows<0, T>, &run_of_windows<1, T>, &run_of_windows<2, T>, &run_of_windows<3, T>};
  const auto run = kRuns[w.step > 3 ? 0 : w.step];
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(in) + r * w.in;
    T* to = static_cast<T*>(out) + r * w.out;
    for (int64_t k = 0; k < begin; ++k) to[k] = max_of_window(w, row, k);
    run(w, row + (begin * w.step - w.padding), end - begin, to + begin);
    for (int64_t k = end; k < w.out; ++k) to[k] = max_of_window(w, row, k);
  }
}

}  // namespace

extern const pool::MaxRowLoop FLAMBEAU_LOOPS(pool_max_rows)[2];
const pool::MaxRowLoop FLAMBEAU_LOOPS(pool_max_rows)[2] = {&max_rows<float>, &max_rows<double>};

}  // namespace flambeau::loops
