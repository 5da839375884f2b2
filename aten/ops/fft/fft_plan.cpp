#include "aten/ops/fft/fft_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "aten/core/loop_table.h"
#include "aten/ops/fft/plan_cache.h"
#include "aten/ops/fft/row_tables.h"
#include "aten/ops/fft/row_transform.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(fft::Loops<float>, fft_float)
FLAMBEAU_DECLARE_LOOPS(fft::Loops<double>, fft_double)

namespace fft {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The radixes of the passes; empty where a prime factor is too large. Eights come last: in early
// passes their elements lie so far apart that they compete for places in the caches.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  const auto take = [&](int64_t radix) {
    n /= radix;
    factors.push_back(radix);
  };
  for (int64_t radix = 3; radix <= kLargestRadix; radix += 2) {
    while (n % radix == 0) take(radix);
  }
  std::reverse(factors.begin(), factors.end());
  const int twos = n > 0 ? std::countr_zero(static_cast<uint64_t>(n)) : 0;
  const int eights = twos % 2 ? (twos >= 3 ? 1 : 0) : (twos >= 6 ? 2 : 0);
  for (int left = twos - 3 * eights; left > 0; left -= 2) take(left == 1 ? 2 : 4);
  for (int i = 0; i < eights; ++i) take(8);
  if (n > 1) factors.clear();
  return factors;
}

bool is_smooth(int64_t n) { return n == 1 || !factors_of(n).empty(); }

int64_t smooth_length_from(int64_t least) {
  int64_t best = 1;
  while (best < least) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5) {
    for (int64_t threes = fives; threes < best; threes *= 3) {
      int64_t n = threes;
      while (n < least) n *= 2;
      best = std::min(best, n);
    }
  }
  return best;
}

}  // namespace

void root_of_unity(int64_t k, int64_t n, double* re, double* im) {
  // Eighths of a turn: within one, the angle is at most pi / 4.
  const int64_t eighth = 8 * k / n;
  const auto angle_of = [n](int64_t eighths) {
    return kPi / 4 * (static_cast<double>(eighths) / static_cast<double>(n));
  };
  const int64_t rest = 8 * k - eighth * n;
  const double a = angle_of(eighth % 2 ? n - rest : rest);
  const double c = std::cos(a), s = std::sin(a);
  const double x[] = {c, s, -s, -c, -c, -s, s, c};
  const double y[] = {s, c, c, s, -s, -c, -c, -s};
  *re = x[eighth];
  *im = -y[eighth];
}

template <typename T>
std::vector<T> roots_of_unity(int64_t count, int64_t n) {
  std::vector<T> roots(static_cast<size_t>(2 * count));
  for (int64_t k = 0; k < count; ++k) {
    double re, im;
    root_of_unity(k, n, &re, &im);
    roots[static_cast<size_t>(2 * k)] = static_cast<T>(re);
    roots[static_cast<size_t>(2 * k + 1)] = static_cast<T>(im);
  }
  return roots;
}

template <>
const Loops<float>& loops<float>() {
  static const LoopTable<Loops<float>> table = FLAMBEAU_LOOP_TABLE(fft_float);
  return table[0];
}
template <>
const Loops<double>& loops<double>() {
  static const LoopTable<Loops<double>> table = FLAMBEAU_LOOP_TABLE(fft_double);
  return table[0];
}

template <typename T>
std::shared_ptr<const LanePlan<T>> LanePlan<T>::of(int64_t n) {
  static PlanCache<LanePlan> cache;
  return cache.get(n, [n] { return std::make_shared<const LanePlan>(n); });
}

template <typename T>
LanePlan<T>::LanePlan(int64_t n) : n_(n) {
  if (fft::is_smooth(n)) {
    make_passes();
  } else {
    make_chirp();
  }
}

template <typename T>
void LanePlan<T>::make_passes() {
  int64_t left = n_, run = 1;
  for (const int64_t radix : factors_of(n_)) {
    const int64_t blocks = left / radix;
    std::vector<T> twiddles(static_cast<size_t>(2 * blocks * (radix - 1)));
    T* to = twiddles.data();
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t t = 1; t < radix; ++t, to += 2) {
        double re, im;
        root_of_unity(b * t % left, left, &re, &im);
        to[0] = static_cast<T>(re);
        to[1] = static_cast<T>(im);
      }
    }
    tables_.push_back(std::move(twiddles));
    const T* const from = tables_.back().data();
    tables_.push_back(roots_of_unity<T>(radix, radix));
    passes_.push_back({radix, blocks, run, from, tables_.back().data()});
    left = blocks;
    run *= radix;
  }
}

template <typename T>
void LanePlan<T>::make_chirp() {
  const int64_t m = smooth_length_from(2 * n_ - 1);
  inner_length_ = m;
  if (m <= kLongestLane) inner_ = of(m);
  chirp_.resize(static_cast<size_t>(2 * n_));
  // The spectrum in double whatever T is: it is the only place where errors of all elements meet.
  std::vector<double> conjugate(static_cast<size_t>(2 * m));
  int64_t square = 0;  // j^2 mod 2 n
  for (int64_t j = 0; j < n_; ++j) {
    double c, s;
    root_of_unity(square, 2 * n_, &c, &s);
    chirp_[static_cast<size_t>(2 * j)] = static_cast<T>(c);
    chirp_[static_cast<size_t>(2 * j + 1)] = static_cast<T>(s);
    for (const int64_t at : {j, (m - j) % m}) {
      conjugate[static_cast<size_t>(2 * at)] = c;
      conjugate[static_cast<size_t>(2 * at + 1)] = -s;
    }
    square = (square + 2 * j + 1) % (2 * n_);
  }
  transform_row(m, conjugate.data(), conjugate.data(), true, 1.0 / static_cast<double>(m));
  spectrum_.assign(conjugate.begin(), conjugate.end());
}

template <typename T>
void LanePlan<T>::execute(T*& re, T*& im, T*& work_re, T*& work_im) const {
  const Loops<T>& table = loops<T>();
  if (is_smooth()) {
    if (passes_.empty()) return;
    table.run(passes_.data(), static_cast<int64_t>(passes_.size()), re, im, work_re, work_im);
    std::swap(re, work_re);
    std::swap(im, work_im);
    return;
  }
  table.multiply(n_, chirp_.data(), re, im);
  std::fill(re + n_ * table.lanes, re + capacity() * table.lanes, T(0));
  std::fill(im + n_ * table.lanes, im + capacity() * table.lanes, T(0));
  inner_->execute(re, im, work_re, work_im);
  table.multiply(capacity(), spectrum_.data(), re, im);
  inner_->execute(im, re, work_im, work_re);  // with the parts exchanged: backward
  table.multiply(n_, chirp_.data(), re, im);
}

template <typename T>
std::shared_ptr<const SplitPlan<T>> SplitPlan<T>::of(int64_t n) {
  static PlanCache<SplitPlan> cache;
  return cache.get(n, [n] { return std::make_shared<const SplitPlan>(n); });
}

template <typename T>
SplitPlan<T>::SplitPlan(int64_t n) : n_(n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) rows_ = d;
  }
  const int64_t lanes = loops<T>().lanes;
  const auto sequence_in = loops<T>().sequence_in;
  if (rows_ < lanes) rows_ = 1;
  if (rows_ == 1) return;
  while (int64_t{1} << (2 * shift_) < n) ++shift_;
  const int64_t below = int64_t{1} << shift_;
  low_ = roots_of_unity<double>(std::min(below, n), n);
  for (int64_t k = 0; k < n; k += below) {
    double re, im;
    root_of_unity(k, n, &re, &im);
    high_.push_back(re);
    high_.push_back(im);
  }
  steps_.resize(static_cast<size_t>(2 * lanes * rows_));
  for (int64_t k = 0; k < rows_; ++k) {
    for (int64_t j = 0; j < lanes; ++j) {
      double re, im;
      root_of_unity(k * sequence_in(static_cast<int>(j)) % n, n, &re, &im);
      steps_[static_cast<size_t>(2 * k * lanes + j)] = static_cast<T>(re);
      steps_[static_cast<size_t>((2 * k + 1) * lanes + j)] = static_cast<T>(im);
    }
  }
}

template <typename T>
void SplitPlan<T>::starts(int64_t first, T* roots) const {
  const int64_t mask = (int64_t{1} << shift_) - 1;
  int64_t power = 0;
  for (int64_t k = 0; k < rows_; ++k) {
    const double* a = low_.data() + 2 * (power & mask);
    const double* b = high_.data() + 2 * (power >> shift_);
    roots[2 * k] = static_cast<T>(a[0] * b[0] - a[1] * b[1]);
    roots[2 * k + 1] = static_cast<T>(a[0] * b[1] + a[1] * b[0]);
    power += first;
    if (power >= n_) power -= n_;
  }
}

template <typename T>
std::shared_ptr<const std::vector<T>> real_roots(int64_t n) {
  static PlanCache<std::vector<T>> cache;
  return cache.get(
      n, [n] { return std::make_shared<const std::vector<T>>(roots_of_unity<T>(n / 2 + 1, n)); });
}

template class LanePlan<float>;
template class LanePlan<double>;
template class SplitPlan<float>;
template class SplitPlan<double>;
template std::vector<float> roots_of_unity<float>(int64_t, int64_t);
template std::vector<double> roots_of_unity<double>(int64_t, int64_t);
template std::shared_ptr<const std::vector<float>> real_roots<float>(int64_t);
template std::shared_ptr<const std::vector<double>> real_roots<double>(int64_t);

}  // namespace fft
}  // namespace flambeau
