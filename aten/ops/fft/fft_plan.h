#pragma once
// What a Fourier transform of one length needs, computed once: factors, twiddles, and for lengths
// with a large prime factor the chirp of Bluestein's algorithm. Plans are immutable and shared.
#include <cstdint>
#include <memory>
#include <vector>

#include "aten/ops/fft/fft_loops.h"

namespace flambeau::fft {

// e^(-2 pi i k / n) for 0 <= k < n, to one rounding of double: the angle is reduced to an octant.
void root_of_unity(int64_t k, int64_t n, double* re, double* im);

// All roots[k], 0 <= k < count, of order n, interleaved.
template <typename T>
std::vector<T> roots_of_unity(int64_t count, int64_t n);

template <typename T>
const Loops<T>& loops();

// Sequences that take more elements leave the second-level cache when many of them run side by
// side; they are split (row_transform.h).
inline constexpr int64_t kLongestLane = 8192;

// Transforms of loops<T>().lanes sequences at once. Lengths whose prime factors are small take
// passes; the others Bluestein's algorithm: x[j] c[j] convolved with conj(c), c[j] = e^(-pi i
// j^2/n), by transforms of a smooth length >= 2 n - 1 (IEEE Trans. Audio 18, 1970).
template <typename T>
class LanePlan {
 public:
  static std::shared_ptr<const LanePlan> of(int64_t n);
  explicit LanePlan(int64_t n);

  int64_t length() const { return n_; }
  // Elements per lane that the arrays of execute() must hold.
  int64_t capacity() const { return inner_length_ ? inner_length_ : n_; }
  bool is_smooth() const { return !inner_length_; }
  const std::vector<T>& chirp() const { return chirp_; }
  const std::vector<T>& spectrum() const { return spectrum_; }
  // Forward transform of re and im. They and the work arrays hold capacity() elements of each lane,
  // and may change places.
  void execute(T*& re, T*& im, T*& work_re, T*& work_im) const;

 private:
  void make_passes();
  void make_chirp();
  int64_t n_;
  std::vector<Pass<T>> passes_;
  std::vector<std::vector<T>> tables_;
  int64_t inner_length_ = 0;               // 0: smooth
  std::shared_ptr<const LanePlan> inner_;  // null where too long for lanes
  std::vector<T> chirp_;
  std::vector<T> spectrum_;  // of conj(chirp), divided by the inner length
};

// The tables that split a long sequence of n = rows * columns into short ones: roots of order n in
// two levels, and the steps of one block of lanes.
template <typename T>
class SplitPlan {
 public:
  static std::shared_ptr<const SplitPlan> of(int64_t n);
  explicit SplitPlan(int64_t n);
  // Whether n is a product of two lengths worth the split.
  bool splits() const { return rows_ > 1; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return n_ / rows_; }
  // roots[k] = e^(-2 pi i k first / n) for k < rows().
  void starts(int64_t first, T* roots) const;
  // For each k < rows(): e^(-2 pi i k j / n) for the lanes j, real parts, then imaginary ones.
  const std::vector<T>& steps() const { return steps_; }

 private:
  int64_t n_;
  int64_t rows_ = 1;
  int shift_ = 0;
  std::vector<double> low_;
  std::vector<double> high_;
  std::vector<T> steps_;
};

// The roots that the unpacking of a real transform of n points needs, shared.
template <typename T>
std::shared_ptr<const std::vector<T>> real_roots(int64_t n);

}  // namespace flambeau::fft
