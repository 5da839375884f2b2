// The device code's own logic, run on the host: vector math against the standard library, offsets,
// packs and half types of pointwise kernels, splits of reductions. Needs nvcc but no GPU.
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <vector>

#include "aten/cuda/pointwise.cuh"
#include "aten/cuda/reduce.cuh"

namespace {

using namespace flambeau;
using namespace flambeau::cuda;

int failures = 0;

void expect(bool holds, const char* what, double got = 0, double wanted = 0) {
  if (holds) return;
  ++failures;
  std::printf("FAILED %s: got %.17g, expected %.17g\n", what, got, wanted);
}
void near(const char* what, double got, double wanted, double tolerance) {
  const bool same = (std::isnan(got) && std::isnan(wanted)) || got == wanted;
  expect(same || std::fabs(got - wanted) <= tolerance * (1 + std::fabs(wanted)), what, got, wanted);
}

using Ours = complex<double>;
using Theirs = std::complex<double>;
struct ComplexCase {
  const char* name;
  Ours (*ours)(Ours);
  Theirs (*theirs)(const Theirs&);
};

void test_complex_functions() {
  const ComplexCase cases[] = {
      {"sqrt", vec::sqrt, std::sqrt},    {"exp", vec::exp, std::exp},
      {"log", vec::log, std::log},       {"sin", vec::sin, std::sin},
      {"cos", vec::cos, std::cos},       {"tan", vec::tan, std::tan},
      {"sinh", vec::sinh, std::sinh},    {"cosh", vec::cosh, std::cosh},
      {"tanh", vec::tanh, std::tanh},    {"asin", vec::asin, std::asin},
      {"acos", vec::acos, std::acos},    {"atan", vec::atan, std::atan},
      {"asinh", vec::asinh, std::asinh}, {"acosh", vec::acosh, std::acosh},
      {"atanh", vec::atanh, std::atanh},
  };
  for (const ComplexCase& c : cases) {
    for (double re = -3.1; re < 3.2; re += 0.37) {
      for (double im = -2.9; im < 3; im += 0.41) {
        const Ours got = c.ours(Ours(re, im));
        const Theirs wanted = c.theirs(Theirs(re, im));
        near(c.name, got.re, wanted.real(), 1e-13);
        near(c.name, got.im, wanted.imag(), 1e-13);
      }
    }
  }
}

void test_real_functions() {
  near("digamma", vec::digamma(0.5), -1.9635100260214235, 1e-14);
  near("polygamma", vec::polygamma(1.0, 3.0), 0.39493406684822646, 1e-14);
  near("erfinv", std::erf(vec::erfinv(0.3)), 0.3, 1e-14);
  near("softplus", vec::softplus(800.0), 800, 0);
  near("log_sigmoid", vec::log_sigmoid(-800.0), -800, 0);
  near("logaddexp", vec::logaddexp(1000.0, 1000.0), 1000 + std::log(2.0), 1e-15);
  near("xlogy", vec::xlogy(0.0, 0.0), 0, 0);
  near("floor_divide", vec::floor_divide(-7, 2), -4, 0);
  near("floor_divide", vec::floor_divide(-7.0, 2.0), -4, 0);
  near("remainder", vec::remainder(-7, 2), 1, 0);
  near("division by zero", vec::trunc_divide(7, 0), 0, 0);
  near("max", vec::max(std::nan(""), 1.0), std::nan(""), 0);
  near("fmax", vec::fmax(std::nan(""), 1.0), 1, 0);
  near("right_shift", vec::right_shift(int8_t{-5}, int8_t{9}), -1, 0);
  near("round", vec::round(2.5), 2, 0);
}

template <typename T>
struct ScaledSum {
  using Value = T;
  using Out = T;
  static constexpr int kOperands = 2;
  static FLAMBEAU_HOST_DEVICE Out apply(const T* in, const void* params) {
    return in[0] + param<T>(params, 0) * in[1];
  }
};

void test_strided_and_packed() {
  constexpr int kRows = 5, kColumns = 7;
  std::vector<float> a(kRows * kColumns), row(kColumns), out(kRows * kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(100 * i);
  PointwiseLaunch launch{};
  launch.numel = kRows * kColumns;
  launch.ndim = 2;
  launch.sizes[0] = kColumns;
  launch.sizes[1] = kRows;
  const int64_t strides[3][2] = {
      {1, kColumns}, {kRows, 1}, {1, 0}};  // `a` is transposed, `row` repeats
  for (int k = 0; k < 3; ++k) std::memcpy(launch.strides[k], strides[k], sizeof(strides[k]));
  launch.data[0] = reinterpret_cast<char*>(out.data());
  launch.data[1] = reinterpret_cast<char*>(a.data());
  launch.data[2] = reinterpret_cast<char*>(row.data());
  const float two = 2;
  std::memcpy(launch.params, &two, sizeof(two));
  for (int64_t i = 0; i < launch.numel; ++i) apply_strided<ScaledSum<float>, float>(launch, i);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c)
      near("strided", out[r * kColumns + c], a[c * kRows + r] + 2 * row[c], 0);
  }
  launch.contiguous = true;
  launch.data[2] = nullptr;
  std::memcpy(launch.immediates + 2 * 16, &two, sizeof(two));
  apply_packed<ScaledSum<float>, float>(launch, 4);
  for (int i = 4; i < 8; ++i) near("packed", out[i], a[i] + 4, 0);
}

void test_half_types() {
  const float values[] = {0.0f, -1.5f, 65504.0f, 1e6f, 6e-8f, 0.333251953125f};
  const float halves[] = {0.0f, -1.5f, 65504.0f, INFINITY, 5.9604645e-8f, 0.333251953125f};
  for (int i = 0; i < 6; ++i)
    near("half", load_as<float>(stored_as<Half>(values[i])), halves[i], 0);
  near("bfloat16", load_as<float>(stored_as<BFloat16>(1.00390625f)), 1, 0);  // a tie goes to even
  near("bfloat16", load_as<float>(stored_as<BFloat16>(1.01171875f)), 1.015625, 0);
  near("bfloat16", load_as<float>(stored_as<BFloat16>(std::nanf(""))), std::nan(""), 0);
}

template <typename T>
struct Sum {
  using Value = T;
  using Acc = T;
  using Out = T;
  static constexpr int kOperands = 2;
  static constexpr int kLet = 1;
  static FLAMBEAU_HOST_DEVICE Acc identity() { return 0; }
  static FLAMBEAU_HOST_DEVICE Acc combine(Acc a, Acc b) { return a + b; }
  static FLAMBEAU_HOST_DEVICE Acc map(const T* in, const void*) { return in[0] - in[1]; }
  static FLAMBEAU_HOST_DEVICE Out finish(Acc acc, const T* kept, const void*, int64_t count) {
    return acc / static_cast<T>(count) + kept[0];
  }
};

// What the blocks and lanes of reduce_kernel and merge_kernel do, one after the other.
template <typename Fiber, typename Storage>
void reduce_on_host(const ReduceLaunch& launch) {
  const ReduceGeometry g = reduce_geometry(launch);
  for (int64_t output = 0; output < launch.outputs; ++output) {
    auto acc = Fiber::identity();
    for (int64_t split = 0; split < g.splits; ++split) {
      const int64_t begin = split * g.per_split;
      const int64_t end = begin + g.per_split < launch.count ? begin + g.per_split : launch.count;
      for (int lane = 0; lane < g.lanes; ++lane) {
        acc = Fiber::combine(
            acc, reduce_part<Fiber, Storage>(launch, output, begin + lane, end, g.lanes));
      }
    }
    finish_one<Fiber, Storage>(launch, output, acc);
  }
}

// The mean of each row, through differences to a let array: `columns` elements, every stride
// explicit.
void test_reduction(int64_t rows, int64_t columns, bool transposed) {
  std::vector<double> in(rows * columns), base(rows), out(rows);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i % 17);
  for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<double>(i);
  ReduceLaunch launch{};
  launch.outputs = rows;
  launch.count = columns;
  launch.kept_ndim = launch.reduced_ndim = 1;
  launch.kept_sizes[0] = rows;
  launch.reduced_sizes[0] = columns;
  launch.kept_strides[0][0] = transposed ? 1 : columns;
  launch.reduced_strides[0][0] = transposed ? rows : 1;
  launch.kept_strides[1][0] = 1;
  launch.data[0] = reinterpret_cast<const char*>(in.data());
  launch.data[1] = reinterpret_cast<const char*>(base.data());
  launch.out = reinterpret_cast<char*>(out.data());
  reduce_on_host<Sum<double>, double>(launch);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += in[transposed ? c * rows + r : r * columns + c];
    near("mean", out[r], sum / static_cast<double>(columns), 1e-12);
  }
}

}  // namespace

int main() {
  test_complex_functions();
  test_real_functions();
  test_strided_and_packed();
  test_half_types();
  for (const int64_t rows : {1, 3, 64, 1000}) {
    for (const int64_t columns : {1, 15, 33, 1023, 70000}) {
      if (rows * columns > 10'000'000) break;
      test_reduction(rows, columns, false);
      test_reduction(rows, columns, true);
    }
  }
  std::printf(failures ? "%d failures\n" : "device code agrees on the host\n", failures);
  return failures != 0;
}
