// The pointwise driver against element-by-element evaluation in double.
#include <cstdlib>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"
#include "aten/cpu/pointwise.h"
#include "harness.h"
#include "sample_loops.h"
#include "sample_tensors.h"

using namespace flambeau;
using testing::counting;
using testing::kAdd;
using testing::permuted;
using testing::value_at;

namespace {

constexpr ScalarType kTypes[] = {ScalarType::UInt8,   ScalarType::Int16,    ScalarType::Int64,
                                 ScalarType::Float16, ScalarType::BFloat16, ScalarType::Float32,
                                 ScalarType::Float64};

void expect_sum(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) {
  bool equal = true;
  for (int64_t i = 0; i < out.numel(); ++i) {
    equal &= value_at(out, i, out.sizes()) ==
             value_at(a, i, out.sizes()) + alpha * value_at(b, i, out.sizes());
  }
  EXPECT(equal);
}

const Scalar kOne[] = {Scalar(1)};

Tensor add(const Tensor& a, const Tensor& b) {
  return pointwise(kAdd, {Operand(a), Operand(b)}, kOne);
}

}  // namespace

TEST(pointwise_shapes_and_dtypes) {
  const DimVector shapes[][2] = {{{}, {}},
                                 {{1}, {1}},
                                 {{5}, {5}},
                                 {{3, 4}, {4}},
                                 {{3, 1}, {1, 4}},
                                 {{2000}, {1}},
                                 {{70, 300}, {300}},
                                 {{300, 3}, {3}},
                                 {{2, 3, 4}, {3, 1}},
                                 {{0, 3}, {3}},
                                 {{130, 5, 2}, {130, 1, 2}}};
  for (const auto& pair : shapes) {
    for (const ScalarType x : kTypes) {
      for (const ScalarType y : kTypes) {
        const Tensor a = counting(pair[0], x, 3), b = counting(pair[1], y, 11);
        const Tensor out = add(a, b);
        EXPECT(out.sizes() == broadcast_sizes(pair[0], pair[1]).ref());
        expect_sum(out, a, b, 1);
      }
    }
  }
}

TEST(pointwise_promotes) {
  const Tensor ints = counting({3}, ScalarType::Int32, 0);
  EXPECT_EQ(add(ints, counting({}, ScalarType::Float64, 0)).dtype(), ScalarType::Float64);
  EXPECT_EQ(
      add(counting({3}, ScalarType::Float16, 0), counting({}, ScalarType::Float64, 0)).dtype(),
      ScalarType::Float16);
  EXPECT_EQ(pointwise(kAdd, {Operand(ints), Operand(Scalar(2.5))}, ArrayRef<Scalar>(kOne)).dtype(),
            ScalarType::Float32);
  EXPECT_EQ(pointwise(testing::kLess, {Operand(ints), Operand(Scalar(2))}, {}).dtype(),
            ScalarType::Bool);
}

TEST(pointwise_strided_operands) {
  const Tensor big = counting({64, 96}, ScalarType::Float32, 1);
  const Tensor t = permuted(counting({96, 64}, ScalarType::Float32, 5), {1, 0});
  expect_sum(add(big, t), big, t, 1);
  expect_sum(add(t, big), t, big, 1);
  const Tensor both = add(t, t);
  EXPECT(both.strides() == t.strides());  // the operands' memory order
  expect_sum(both, t, t, 1);
  const Tensor cube = counting({5, 33, 41}, ScalarType::Float64, 2);
  const Tensor turned = permuted(counting({41, 5, 33}, ScalarType::Int16, 4), {1, 2, 0});
  expect_sum(add(cube, turned), cube, turned, 1);
  const Tensor stepped = as_view(big, {{32, 48}, {192, 2}, 1});
  expect_sum(add(stepped, stepped), stepped, stepped, 1);
}

TEST(pointwise_numbers) {
  const Tensor a = counting({3000}, ScalarType::Float32, 0);
  const Scalar two(2), half(0.5);
  const Tensor out = pointwise(kAdd, {Operand(a), Operand(half)}, ArrayRef<Scalar>(&two, 1));
  EXPECT(value_at(out, 2999, out.sizes()) == value_at(a, 2999, a.sizes()) + 1.0);
  const Tensor turned = pointwise(kAdd, {Operand(half), Operand(a)}, ArrayRef<Scalar>(&two, 1));
  EXPECT(value_at(turned, 7, out.sizes()) == 0.5 + 2 * value_at(a, 7, a.sizes()));
  EXPECT(testing::throws(ErrorKind::Runtime, "an integer alpha for integer inputs, got 0.5", [&] {
    const Tensor ints = counting({3}, ScalarType::Int64, 0);
    pointwise(kAdd, {Operand(ints), Operand(ints)}, ArrayRef<Scalar>(&half, 1));
  }));
}

TEST(pointwise_inplace_and_out) {
  Tensor a = counting({4, 5}, ScalarType::Float32, 0);
  const Tensor before = counting({4, 5}, ScalarType::Float32, 0);
  const Tensor row = counting({5}, ScalarType::Int32, 3);
  pointwise_inplace(kAdd, a, {Operand(a), Operand(row)}, kOne);
  expect_sum(a, before, row, 1);
  Tensor small = counting({5}, ScalarType::Float32, 0);
  EXPECT(testing::throws(
      ErrorKind::Runtime, "of shape [5] cannot take a result of broadcast shape [4, 5]",
      [&] { pointwise_inplace(kAdd, small, {Operand(small), Operand(before)}, kOne); }));
  Tensor ints = counting({4, 5}, ScalarType::Int32, 0);
  EXPECT(testing::throws(ErrorKind::Runtime, "can't be cast to out's type Int", [&] {
    pointwise_inplace(kAdd, ints, {Operand(ints), Operand(before)}, kOne);
  }));
  Tensor wide = empty_tensor({2}, ScalarType::Float64);
  pointwise_out(kAdd, wide, {Operand(before), Operand(row)}, kOne);
  EXPECT(wide.sizes() == before.sizes());
  expect_sum(wide, before, row, 1);
  const Tensor line = counting({6}, ScalarType::Float32, 0);
  Tensor head = as_view(line, {{5}, {1}, 0});
  const Tensor tail = as_view(line, {{5}, {1}, 1});
  EXPECT(testing::throws(ErrorKind::Runtime, "an input shares memory with the written tensor", [&] {
    pointwise_inplace(kAdd, head, {Operand(head), Operand(tail)}, kOne);
  }));
  Tensor expanded = as_view(line, {{3, 2}, {0, 1}, 0});
  EXPECT(testing::throws(
      ErrorKind::Runtime, "several elements of the written tensor share memory",
      [&] { pointwise_inplace(kAdd, expanded, {Operand(expanded), Operand(expanded)}, kOne); }));
}

TEST(pointwise_reports_division_by_zero) {
  const Tensor a = counting({3}, ScalarType::Int64, 1), zero = zeros_tensor({3}, ScalarType::Int64);
  EXPECT(testing::throws(ErrorKind::Runtime, "ZeroDivisionError",
                         [&] { pointwise(testing::kDivide, {Operand(a), Operand(zero)}, {}); }));
}

TEST(pointwise_large_runs_in_parallel) {
  const Tensor a = counting({700, 900}, ScalarType::Float32, 1);
  const Tensor b = permuted(counting({900, 700}, ScalarType::Float64, 2), {1, 0});
  expect_sum(add(a, b), a, b, 1);
  expect_sum(add(a, a), a, a, 1);
}

TEST(copy_strided_cast_and_broadcast) {
  const Tensor source = permuted(counting({37, 53, 3}, ScalarType::Float32, 1), {1, 0, 2});
  for (const ScalarType dtype :
       {ScalarType::Float32, ScalarType::Int64, ScalarType::BFloat16, ScalarType::Complex64}) {
    const Tensor copy = empty_tensor(source.sizes(), dtype);
    copy_into(copy, source);
    bool equal = true;
    for (int64_t i = 0; i < copy.numel(); ++i) {
      equal &= value_at(copy, i, copy.sizes()) == value_at(source, i, copy.sizes());
    }
    EXPECT(equal);
  }
  const Tensor wide = empty_tensor({4, 2000}, ScalarType::Float64);
  copy_into(wide, counting({4, 1}, ScalarType::Int16, 5));
  EXPECT(value_at(wide, 1999, wide.sizes()) == 5 && value_at(wide, 2000, wide.sizes()) == 12);
  const Tensor line = counting({100}, ScalarType::Int32, 0);
  const Tensor expected = counting({100}, ScalarType::Int32, 0);
  copy_into(as_view(line, {{99}, {1}, 1}), as_view(line, {{99}, {1}, 0}));
  EXPECT(value_at(line, 60, line.sizes()) == value_at(expected, 59, line.sizes()));
  fill_with(as_view(line, {{50}, {2}, 0}), Scalar(9));
  EXPECT(value_at(line, 98, line.sizes()) == 9 && value_at(line, 99, line.sizes()) != 9);
  EXPECT(testing::throws(ErrorKind::Runtime, "without overflow",
                         [&] { fill_with(counting({2}, ScalarType::UInt8, 0), Scalar(300)); }));
  EXPECT(item_of(scalar_tensor(Scalar(2.5), ScalarType::Float32)).to_double() == 2.5);
}
