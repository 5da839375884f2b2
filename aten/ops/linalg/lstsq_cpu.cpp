// Least squares on CPU by LAPACK's drivers.
// Formula:
//   the X of least norm among those with min |A X - B|:
//   gels   QR; A has full rank            gelsy  QR with column exchanges and rank
//   gelsd  SVD by divide and conquer      gelss  SVD
//   Singular values below rcond times the largest count as 0.
// Accumulates in: the dtype, in LAPACK.
// NaN, infinity: both are handed to LAPACK unchecked.
// Error: 1e-10 absolute in float64 against NumPy (test/ops/test_linalg.py).
// Source: Anderson et al. 1999, "LAPACK Users' Guide", sec. 2.4.
#include "aten/ops/linalg/matrices.h"
#include "torchgen_out/aten/linalg_kernels.h"

namespace flambeau::ops {
namespace {

using namespace linalg;

struct Problem {
  int rows, columns, right_sides;
  std::string_view driver;
  double rcond;
};

// `b` has max(rows, columns) rows; rank and s are filled where the driver knows them.
template <typename T>
int solve(const Problem& p, T* a, T* b, lapack::real_t<T>* s, int* rank) {
  const auto rcond = static_cast<lapack::real_t<T>>(p.rcond);
  const int ldb = leading(std::max(p.rows, p.columns));
  if (p.driver == "gels")
    return lapack::gels(p.rows, p.columns, p.right_sides, a, leading(p.rows), b, ldb);
  if (p.driver == "gelsy")
    return lapack::gelsy(p.rows, p.columns, p.right_sides, a, leading(p.rows), b, ldb, rcond, rank);
  return lapack::gelss(p.driver == "gelsd", p.rows, p.columns, p.right_sides, a, leading(p.rows), b,
                       ldb, s, rcond, rank);
}

}  // namespace

void lstsq_cpu(const Tensor& self, const Tensor& b, double rcond, std::string_view driver,
               Tensor& solution, Tensor& rank, Tensor& singular_values) {
  const int64_t m = self.size(-2), n = self.size(-1), right_sides = b.size(-1),
                tall = std::max(m, n);
  const Problem problem{lapack::dimension("linalg.lstsq", m), lapack::dimension("linalg.lstsq", n),
                        lapack::dimension("linalg.lstsq", right_sides), driver, rcond};
  const Tensor a = allocate(by_columns(self, batch_of(self), m, n));
  copy_into(a, self);
  const Tensor sides = columns_of(b);
  const Tensor info = empty_tensor(batch_of(self), ScalarType::Int32);
  dispatch_lapack(self.dtype(), "linalg.lstsq", [&]<typename T>() {
    each_matrix(matrix_count(self), m, 2 * n, [&](int64_t i) {
      std::vector<T> work(static_cast<size_t>(tall * right_sides));
      const T* from = sides.data_as<T>() + i * m * right_sides;
      for (int64_t j = 0; j < right_sides; ++j)
        std::copy_n(from + j * m, m, work.data() + j * tall);
      int found = 0;
      auto* values = singular_values.numel()
                         ? singular_values.data_as<lapack::real_t<T>>() + i * std::min(m, n)
                         : nullptr;
      const bool empty = m == 0 || n == 0;
      info.data_as<int>()[i] =
          empty ? 0 : solve(problem, a.data_as<T>() + i * m * n, work.data(), values, &found);
      if (rank.numel()) rank.data_as<int64_t>()[i] = found;
      T* to = solution.data_as<T>() + i * n * right_sides;
      for (int64_t j = 0; j < right_sides; ++j) std::copy_n(work.data() + j * tall, n, to + j * n);
      if (m == 0) std::fill(to, to + n * right_sides, T(0));
    });
  });
  check_info("linalg.lstsq", info, [](std::string& text, int at) {
    text +=
        text_of("The least squares solution needs a matrix of full rank (error code: ", at, ")");
  });
}

}  // namespace flambeau::ops
