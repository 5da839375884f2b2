// Cumulative sums, products, logarithms of sums of exponentials, and linear recurrences along `dim`
// on CPU.
// Formula:
//   cumsum: s[i] = s[i-1] + x[i];  cumprod: s[i] = s[i-1] * x[i];  recurrence: s[i] = f[i] * s[i-1]
//   + x[i]; logcumsumexp: s[i] = max(s[i-1], x[i]) + log1p(exp(-|s[i-1] - x[i]|)).
// Accumulates in: wider than the elements (double for float32, float32 for the half types), so that
// the rounding error of float32 results does not grow with the length.
// NaN, infinity: NaN stays from where it occurs.
// Error: 1 eps relative for cumsum in float32 (test/ops/test_scan.py: 2^-23).
// Source: by definition.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/fibers.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/scan/scan_loops.h"
#include "c10/core/interrupt.h"
#include "torchgen_out/aten/scan_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(scan::ScanLoops, scan_rows)

namespace ops {
namespace {

template <typename T>
struct StateOf {
  using type = accumulate_t<T>;
};
template <>
struct StateOf<float> {
  using type = double;
};
template <>
struct StateOf<complex<float>> {
  using type = complex<double>;
};
template <typename T>
using State = typename StateOf<T>::type;

// Fibers advanced at once: rows hide the latency of a step, columns also become vectors.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 256;
constexpr int64_t kStepsPerCheck = int64_t{1} << 20;  // of a fiber

// step(state, position) returns the new state, which is the element's result.
template <int64_t kWidth, typename T, typename Step>
void advance(int64_t n, int64_t first, int64_t between, int64_t along, T* out, const Step& step) {
  State<T> state[kWidth];  // in registers, for the loops over it are unrolled
#pragma GCC unroll 4
  for (int64_t j = 0; j < kWidth; ++j) state[j] = Step::start();
  for (int64_t i = 0; i < n; ++i) {
    if (i % kStepsPerCheck == kStepsPerCheck - 1) check_interrupt();
    // All reads come first: rows may lie a page apart, and a read just behind a write to the same
    // place of another page waits for it.
#pragma GCC unroll 4
    for (int64_t j = 0; j < kWidth; ++j) state[j] = step(state[j], first + i * along + j * between);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kWidth; ++j)
      out[first + i * along + j * between] = static_cast<T>(state[j]);
  }
}

template <typename T, typename Step>
void scan_rows(const FiberGrid& grid, T* out, const Step& step) {
  const int64_t n = grid.size, groups = (grid.outer + kRows - 1) / kRows;
  parallel_for(0, groups, kRows * n * Step::kCost, [&](int64_t begin, int64_t end) {
    int64_t row = begin * kRows;
    const int64_t last = std::min(end * kRows, grid.outer);
    for (; row + kRows <= last; row += kRows) advance<kRows>(n, row * n, n, 1, out, step);
    for (; row < last; ++row) advance<1>(n, row * n, n, 1, out, step);
  });
}

template <typename T, typename Step>
void scan_columns(const FiberGrid& grid, T* out, const Step& step) {
  const int64_t width = std::min(grid.inner, kColumns), blocks = (grid.inner + width - 1) / width;
  parallel_for(
      0, grid.outer * blocks, width * grid.size * Step::kCost, [&](int64_t begin, int64_t end) {
        State<T> state[kColumns];
        for (int64_t b = begin; b < end; ++b) {
          const int64_t column = b % blocks * width, count = std::min(width, grid.inner - column);
          for (int64_t j = 0; j < count; ++j) state[j] = Step::start();
          for (int64_t i = 0; i < grid.size; ++i) {
            const int64_t at = (b / blocks * grid.size + i) * grid.inner + column;
            for (int64_t j = 0; j < count; ++j) {
              state[j] = step(state[j], at + j);
              out[at + j] = static_cast<T>(state[j]);
            }
          }
        }
      });
}

template <typename T, typename Step>
void scan(const Tensor& out, int64_t dim, const Step& step) {
  const FiberGrid grid(out.sizes(), dim);
  grid.inner == 1 ? scan_rows(grid, out.data_as<T>(), step)
                  : scan_columns(grid, out.data_as<T>(), step);
}

template <typename T>
State<T> widen(T value) {
  return static_cast<State<T>>(value);
}

template <typename T>
struct SumStep {
  static constexpr int64_t kCost = 2;
  const T* in;
  static State<T> start() { return State<T>(0); }
  State<T> operator()(State<T> state, int64_t at) const {
    return wrapping_sum(state, widen(in[at]));
  }
};

// Contiguous rows of the types that have a loop in vectors.
template <typename T, typename Loop>
void sum_rows(const FiberGrid& grid, const T* in, T* out, Loop loop) {
  const int64_t n = grid.size;
  parallel_for(0, grid.outer, n * SumStep<T>::kCost, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      State<T> state = 0;
      for (int64_t i = 0; i < n; i += kStepsPerCheck) {
        if (i > 0) check_interrupt();
        loop(std::min(kStepsPerCheck, n - i), in + row * n + i, out + row * n + i, &state);
      }
    }
  });
}
const scan::ScanLoops& row_loops() {
  static const LoopTable<scan::ScanLoops> table = FLAMBEAU_LOOP_TABLE(scan_rows);
  return table[0];
}
void scan_rows(const FiberGrid& grid, float* out, const SumStep<float>& step) {
  sum_rows(grid, step.in, out, row_loops().sum_float);
}
void scan_rows(const FiberGrid& grid, int64_t* out, const SumStep<int64_t>& step) {
  sum_rows(grid, step.in, out, row_loops().sum_int64);
}

template <typename T>
struct ProductStep {
  static constexpr int64_t kCost = 2;
  const T* in;
  static State<T> start() { return State<T>(1); }
  State<T> operator()(State<T> state, int64_t at) const {
    return wrapping_product(state, widen(in[at]));
  }
};

template <typename T>
struct RecurrenceStep {
  static constexpr int64_t kCost = 3;
  const T* factor;
  const T* term;
  static State<T> start() { return State<T>(0); }
  State<T> operator()(State<T> state, int64_t at) const {
    return wrapping_sum(widen(term[at]), wrapping_product(widen(factor[at]), state));
  }
};

template <typename Real>
Real log_add_exp(Real a, Real b) {
  const Real high = a != a || a > b ? a : b, low = a != a || a > b ? b : a;
  if (high == low && std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

// By the larger real part; where both are infinite the difference has no meaning.
template <typename Real>
complex<Real> log_add_exp(complex<Real> a, complex<Real> b) {
  constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
  if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) return {kNan, kNan};
  const complex<Real> high = a.re >= b.re ? a : b, low = a.re >= b.re ? b : a;
  if (high.re == low.re && std::isinf(high.re)) {
    if (high.re < 0) return high;
    const auto sum = std::log(std::exp(std::complex<Real>(low.re, low.im)) +
                              std::exp(std::complex<Real>(high.re, high.im)));
    return {sum.real(), sum.imag()};
  }
  const Real scale = std::exp(low.re - high.re), angle = low.im - high.im;
  const Real re = scale * std::cos(angle), im = scale * std::sin(angle);
  return {high.re + Real(0.5) * std::log1p(re * (2 + re) + im * im),
          high.im + std::atan2(im, 1 + re)};
}

template <typename T>
struct LogSumExpStep {
  static constexpr int64_t kCost = 40;
  const T* in;
  static State<T> start() { return State<T>(-std::numeric_limits<double>::infinity()); }
  State<T> operator()(State<T> state, int64_t at) const {
    return log_add_exp(state, widen(in[at]));
  }
};

// Sums or products. Converting float16 in bulk uses the processor's own instructions; one by one it
// costs more than the scan.
template <template <typename> typename Step>
void run(const char* op, const Tensor& self, int64_t dim, Tensor& out) {
  if (out.numel() == 0) return;
  if (out.dtype() == ScalarType::Float16) {
    const Tensor in = contiguous_tensor(cast_tensor(self, ScalarType::Float32));
    const Tensor wide = empty_tensor(out.sizes(), ScalarType::Float32);
    scan<float>(wide, dim, Step<float>{in.data_as<float>()});
    return copy_into(out, wide);
  }
  const Tensor in = contiguous_tensor(self);
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::BFloat16, ScalarType::UInt8,
                 ScalarType::Int8, ScalarType::Int16, ScalarType::Int32, ScalarType::Int64,
                 ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64, ScalarType::Complex64,
                 ScalarType::Complex128>(
      in.dtype(), op, [&]<typename T>() { scan<T>(out, dim, Step<T>{in.data_as<T>()}); });
}

}  // namespace

void cumsum_cpu(const Tensor& self, int64_t dim, Tensor& out) {
  run<SumStep>("cumsum_out_cpu", self, dim, out);
}

void cumprod_cpu(const Tensor& self, int64_t dim, Tensor& out) {
  run<ProductStep>("cumprod_out_cpu", self, dim, out);
}

void logcumsumexp_cpu(const Tensor& self, int64_t dim, Tensor& out) {
  dispatch_floating_complex(self.dtype(), "logcumsumexp_out_cpu", [&]<typename T>() {
    if (out.numel() == 0) return;
    const Tensor in = contiguous_tensor(self);
    scan<T>(out, dim, LogSumExpStep<T>{in.data_as<T>()});
  });
}

void linear_recurrence_cpu(const Tensor& factor, const Tensor& term, int64_t dim, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor f = contiguous_tensor(cast_tensor(factor, out.dtype()));
  const Tensor t = contiguous_tensor(cast_tensor(term, out.dtype()));
  dispatch_floating_complex(out.dtype(), "linear_recurrence", [&]<typename T>() {
    scan<T>(out, dim, RecurrenceStep<T>{f.data_as<T>(), t.data_as<T>()});
  });
}

}  // namespace ops

namespace shape {

void scanned(const Tensor& self, int64_t dim, OutSpec* out) {
  wrap_dim(dim, self.dim());
  like(self, out);
}

void scanned_with_index(const Tensor& self, int64_t dim, OutSpec* out) {
  scanned(self, dim, out);
  like(self, ScalarType::Int64, out + 1);
}

void recurrence(const Tensor& factor, const Tensor& term, int64_t dim, OutSpec* out) {
  check(factor.sizes() == term.sizes(), "linear_recurrence: expected factors of the shape of ",
        term, ", got ", factor);
  scanned(term, dim, out);
  out->dtype = result_type(factor, term);
}

}  // namespace shape
}  // namespace flambeau
