// The reduction driver against element-by-element evaluation in double.
#include <limits>

#include "aten/core/shape.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/reduce.h"
#include "harness.h"
#include "sample_loops.h"
#include "sample_tensors.h"

using namespace flambeau;
using testing::counting;
using testing::kMax;
using testing::kSum;
using testing::permuted;
using testing::value_at;

namespace {

constexpr ScalarType kTypes[] = {ScalarType::Bool,    ScalarType::UInt8,   ScalarType::Int32,
                                 ScalarType::Float16, ScalarType::Float32, ScalarType::Float64};

Tensor sum(const Tensor& t, IntArrayRef dim, bool keepdim = false) {
  const Tensor* operands[] = {&t};
  return reduce(kSum, operands, std::optional<IntArrayRef>(dim), keepdim, std::nullopt, {});
}

// Sums by definition, over the dims in `mask`, as a row-major list.
std::vector<double> sums(const Tensor& t, uint64_t mask) {
  const DimVector kept = reduced_sizes(t.sizes(), mask, true);
  std::vector<double> out(static_cast<size_t>(numel_of(kept)), 0.0);
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (size_t d = t.sizes().size(); d-- > 0;) {
      at += (kept[d] == 1 ? 0 : rest % t.sizes()[d]) * step;
      step *= kept[d];
      rest /= t.sizes()[d];
    }
    out[static_cast<size_t>(at)] += value_at(t, i, t.sizes());
  }
  return out;
}

void expect_sums(const Tensor& t, IntArrayRef dim) {
  for (const bool keepdim : {false, true}) {
    const Tensor out = sum(t, dim, keepdim);
    const uint64_t mask = dim.empty() ? ~uint64_t{0} : dim_mask(dim, t.dim());
    EXPECT(out.sizes() == reduced_sizes(t.sizes(), mask, keepdim).ref());
    const std::vector<double> expected = sums(t, mask);
    const double tolerance = t.dtype() == ScalarType::Float16 ? 1e-3 : 1e-6;
    bool close = true;
    for (int64_t i = 0; i < out.numel(); ++i) {
      const double e = expected[static_cast<size_t>(i)];
      close &= std::fabs(value_at(out, i, out.sizes()) - e) <= tolerance * std::fabs(e);
    }
    EXPECT(close);
  }
}

}  // namespace

TEST(reduce_dims_and_dtypes) {
  for (const ScalarType dtype : kTypes) {
    const Tensor t = counting({3, 20, 5, 4}, dtype, 1);
    const DimVector all[] = {{}, {0}, {1}, {-1}, {0, 1}, {1, 2}, {0, 2}, {1, 3}, {0, 1, 2, 3}};
    for (const DimVector& dims : all) expect_sums(t, dims);
    expect_sums(permuted(t, {2, 0, 3, 1}), {1});
    expect_sums(permuted(t, {2, 0, 3, 1}), {3, 0});
  }
  expect_sums(counting({}, ScalarType::Float32, 3), {});
  expect_sums(counting({}, ScalarType::Float32, 3), {0});
  expect_sums(counting({4, 0}, ScalarType::Float32, 3), {1});
  expect_sums(counting({4, 0}, ScalarType::Float32, 3), {0});
}

TEST(reduce_large_in_parallel) {
  set_num_threads(4);
  const Tensor wide = counting({2, 300000}, ScalarType::Float32, 1);
  expect_sums(wide, {1});
  expect_sums(wide, {});
  expect_sums(wide, {0});
  expect_sums(counting({20000, 40}, ScalarType::Int32, 1), {0});
  expect_sums(permuted(counting({600, 700}, ScalarType::Float64, 1), {1, 0}), {0});
  expect_sums(as_view(wide, {{2, 150000}, {300000, 2}, 1}), {1});
  expect_sums(counting({40000, 3, 5}, ScalarType::Float16, 1), {1});
}

TEST(reduce_dtype_argument) {
  const Tensor t = counting({3000}, ScalarType::Int32, 1);
  const Tensor* operands[] = {&t};
  const Tensor narrow = reduce(kSum, operands, std::nullopt, false, ScalarType::Int8, {});
  EXPECT_EQ(narrow.dtype(), ScalarType::Int8);
  const Tensor real = reduce(kSum, operands, std::nullopt, false, ScalarType::Float32, {});
  EXPECT(value_at(real, 0, {}) == sums(t, 1)[0]);
  EXPECT_EQ(sum(t, {}).dtype(), ScalarType::Int64);
}

TEST(reduce_with_let_tensor) {
  for (const bool rows : {false, true}) {
    const Tensor t = rows ? counting({50, 40}, ScalarType::Float32, 2)
                          : permuted(counting({40, 50}, ScalarType::Float32, 2), {1, 0});
    const Tensor center = counting({1, 40}, ScalarType::Float32, 1);
    const Tensor* operands[] = {&t, &center};
    const Tensor out =
        reduce(testing::kSpread, operands, std::optional<IntArrayRef>(IntArrayRef({0})), false,
               std::nullopt, {});
    for (int64_t j = 0; j < 40; ++j) {
      double expected = 0;
      const double c = value_at(center, j, {1, 40});
      for (int64_t i = 0; i < 50; ++i)
        expected += std::pow(value_at(t, i * 40 + j, {50, 40}) - c, 2) / 50;
      EXPECT(std::fabs(value_at(out, j, {40}) - expected - c) < 1e-3);
    }
  }
}

TEST(reduce_maximum_and_empty) {
  Tensor t = counting({4, 3000}, ScalarType::Float32, 1);
  const Tensor* operands[] = {&t};
  const int64_t one = 1;
  const std::optional<IntArrayRef> last(IntArrayRef(&one, 1));
  EXPECT(value_at(reduce(kMax, operands, last, false, std::nullopt, {}), 2, {4}) == 49);
  t.data_as<float>()[3000 + 17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT(std::isnan(value_at(reduce(kMax, operands, last, false, std::nullopt, {}), 1, {4})));
  const Tensor empty = counting({0, 3}, ScalarType::Float32, 1);
  const Tensor* none[] = {&empty};
  EXPECT(testing::throws(ErrorKind::Index, "got dim 0 without elements", [&] {
    reduce(kMax, none, std::optional<IntArrayRef>(IntArrayRef({0})), false, std::nullopt, {});
  }));
  EXPECT(testing::throws(ErrorKind::Runtime, "got None as 'dim'",
                         [&] { reduce(kMax, none, std::nullopt, false, std::nullopt, {}); }));
  EXPECT(testing::throws(ErrorKind::Index, "range of [-2, 1], got 2", [&] { sum(t, {2}); }));
  EXPECT(testing::throws(ErrorKind::Runtime, "appears multiple times", [&] { sum(t, {1, -1}); }));
}

TEST(reduce_out_resizes_and_handles_overlap) {
  Tensor t = counting({4, 4}, ScalarType::Float32, 1);
  const std::vector<double> expected = sums(t, 1);
  const Tensor* operands[] = {&t};
  Tensor row = as_view(t, {{4}, {1}, 0});
  reduce_out(kSum, row, operands, std::optional<IntArrayRef>(IntArrayRef({0})), false, std::nullopt,
             {});
  EXPECT(value_at(row, 3, {4}) == expected[3]);
  Tensor other = empty_tensor({0}, ScalarType::Float64);
  reduce_out(kSum, other, operands, std::nullopt, true, std::nullopt, {});
  EXPECT(other.sizes() == IntArrayRef({1, 1}));
}

TEST(reduce_error_stays_small) {
  const int64_t n = 4000000;
  Tensor t = empty_tensor({n}, ScalarType::Float32);
  for (int64_t i = 0; i < n; ++i) t.data_as<float>()[i] = 0.1f;
  const double exact = static_cast<double>(0.1f) * n;
  EXPECT(std::fabs(value_at(sum(t, {}), 0, {}) - exact) < 1e-6 * exact);
  const Tensor columns = as_view(t, {{n / 20, 20}, {20, 1}, 0});
  EXPECT(std::fabs(value_at(sum(columns, {0}), 0, {20}) - exact / 20) < 2e-6 * exact / 20);
}
