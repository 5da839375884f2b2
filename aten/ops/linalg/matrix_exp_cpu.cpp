// Exponentials of square matrices on CPU.
// Formula: exp(A) = r(A / 2^s)^(2^s): halve A until its 1-norm is below theta, take the diagonal
// Pade approximant r of degree 13, and square as often.
// Accumulates in: the dtype; half types compute in float32.
// NaN, infinity: a matrix with a NaN or an infinity gives NaN.
// Error: relative error (1-norm): a small multiple of n eps for normal matrices.
// Source: Higham 2005, "The Scaling and Squaring Method for the Matrix Exponential Revisited".
#include <cmath>
#include <limits>

#include "aten/ops/linalg/matrices.h"
#include "aten/ops/matmul/gemm.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::ops {
namespace {

using namespace linalg;

constexpr double kTheta = 5.371920351148152;
constexpr double kPade[] = {64764752532480000.,
                            32382376266240000.,
                            7771770303897600.,
                            1187353796428800.,
                            129060195264000.,
                            10559470521600.,
                            670442572800.,
                            33522128640.,
                            1323241920.,
                            40840800.,
                            960960.,
                            16380.,
                            182.,
                            1.};

double magnitude(float x) { return std::abs(static_cast<double>(x)); }
double magnitude(double x) { return std::abs(x); }
template <typename T>
double magnitude(complex<T> x) {
  return std::hypot(static_cast<double>(x.re), static_cast<double>(x.im));
}

// A square matrix by rows with the few operations that the approximant needs.
template <typename T>
struct Square {
  int64_t n;
  std::vector<T> data;
  explicit Square(int64_t size) : n(size), data(static_cast<size_t>(size * size)) {}

  double norm1() const {
    double largest = 0;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += magnitude(data[static_cast<size_t>(i * n + j)]);
      if (!(sum <= largest)) largest = sum;  // NaN stays
    }
    return largest;
  }
  void add(const Square& other, double factor) {
    const auto f = static_cast<lapack::real_t<T>>(factor);
    for (size_t i = 0; i < data.size(); ++i) data[i] = data[i] + other.data[i] * T(f);
  }
  void add_identity(double factor) {
    for (int64_t i = 0; i < n; ++i)
      data[static_cast<size_t>(i * n + i)] += T(static_cast<lapack::real_t<T>>(factor));
  }
};

template <typename T>
Square<T> product(ScalarType dtype, const Square<T>& a, const Square<T>& b) {
  Square<T> out(a.n);
  const auto matrix = [](const Square<T>& s) {
    return gemm::Matrix{s.data.data(), s.n, s.n, s.n, 1};
  };
  gemm::multiply(dtype, matrix(a), matrix(b), out.data.data(), a.n, false);
  return out;
}

// c6 A^6 + c4 A^4 + c2 A^2, coefficients of two degrees less each.
template <typename T>
Square<T> even_terms(const Square<T>& a2, const Square<T>& a4, const Square<T>& a6, int top) {
  Square<T> sum(a2.n);
  sum.add(a6, kPade[top]);
  sum.add(a4, kPade[top - 2]);
  sum.add(a2, kPade[top - 4]);
  return sum;
}

// The approximant r(A) = (V - U)^-1 (V + U).
template <typename T>
Square<T> pade13(ScalarType dtype, const Square<T>& a) {
  const Square<T> a2 = product(dtype, a, a), a4 = product(dtype, a2, a2),
                  a6 = product(dtype, a2, a4);
  const auto half = [&](int top) {
    Square<T> sum = product(dtype, a6, even_terms(a2, a4, a6, top));
    sum.add(even_terms(a2, a4, a6, top - 6), 1);
    sum.add_identity(kPade[top - 12]);
    return sum;
  };
  const Square<T> u = product(dtype, a, half(13));
  Square<T> sum = half(12), difference = sum;
  sum.add(u, 1);
  difference.add(u, -1);
  // By rows these are the transposes: r = ((V + U)^T solved from the right).
  const int n = static_cast<int>(a.n);
  std::vector<int> pivots(static_cast<size_t>(n));
  lapack::getrf(n, n, difference.data.data(), n, pivots.data());
  // V - U and V + U commute, so the solution from the left of the transposes is the transpose.
  lapack::getrs('N', n, n, difference.data.data(), n, pivots.data(), sum.data.data(), n);
  return sum;
}

template <typename T>
void exponential(ScalarType dtype, const T* from, T* to, int64_t n) {
  Square<T> a(n);
  std::copy_n(from, n * n, a.data.begin());
  const double norm = a.norm1();
  if (!std::isfinite(norm)) {
    std::fill(to, to + n * n, T(std::numeric_limits<lapack::real_t<T>>::quiet_NaN()));
    return;
  }
  const int halvings = norm > kTheta ? static_cast<int>(std::ceil(std::log2(norm / kTheta))) : 0;
  Square<T> scaled(n);
  scaled.add(a, std::ldexp(1.0, -halvings));
  Square<T> result = pade13(dtype, scaled);
  for (int i = 0; i < halvings; ++i) result = product(dtype, result, result);
  std::copy(result.data.begin(), result.data.end(), to);
}

}  // namespace

void matrix_exp_cpu(const Tensor& self, Tensor& result) {
  const int64_t n = self.size(-1);
  if (self.numel() == 0) return;
  const bool half = element_size(self.dtype()) < 4;
  const ScalarType compute = half ? ScalarType::Float32 : self.dtype();
  const Tensor input = contiguous_tensor(cast_tensor(self, compute));
  const Tensor target = half ? empty_tensor(self.sizes(), compute) : result;
  dispatch_lapack(compute, "linalg.matrix_exp", [&]<typename T>() {
    each_matrix(matrix_count(self), n, 8 * n, [&](int64_t i) {
      exponential(compute, input.data_as<T>() + i * n * n, target.data_as<T>() + i * n * n, n);
    });
  });
  if (half) copy_into(result, target);
}

}  // namespace flambeau::ops
