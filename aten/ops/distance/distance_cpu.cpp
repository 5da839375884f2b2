// Distances between all rows of two matrices on CPU, and their gradient.
// Formula:
//   result[i, j] = (sum_k |x1[i, k] - x2[j, k]|^p)^(1/p)
//   p 0 counts differences, inf takes the largest. Differences are taken before powers, so near
//   points lose no digits. The gradient of a zero distance is 0.
// Accumulates in: accumulate_t<T> (float32 for half types), of 64 elements at a time.
// NaN, infinity: NaN spreads, also for p 0. Powers are not scaled: they overflow where |x|^p does.
// Error: relative, at most (64 + k / 64) eps, mostly its square root.
// Source: by definition.
#include <cmath>
#include <memory>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/distance/distance_loops.h"
#include "torchgen_out/aten/distance_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(distance::Loops, distance)

namespace ops {
namespace {

using distance::Order;

Order order_of(double p) {
  if (p == 0) return Order::Zero;
  if (p == 1) return Order::One;
  if (p == 2) return Order::Two;
  return std::isinf(p) ? Order::Infinite : Order::Other;
}

// to += scale * d distance / d a, without the factor that all elements share.
template <Order kOrder, typename Acc>
Acc slope(Acc difference, [[maybe_unused]] Acc distance, [[maybe_unused]] Acc p) {
  const Acc size = difference < 0 ? -difference : difference;
  const Acc sign = difference > 0 ? Acc(1) : difference < 0 ? Acc(-1) : difference;
  if constexpr (kOrder == Order::One) return sign;
  if constexpr (kOrder == Order::Two) return difference / distance;
  if constexpr (kOrder == Order::Infinite) return size == distance ? sign : Acc(0);
  return size == 0 ? Acc(0) : sign * std::pow(size / distance, p - 1);
}

// Calls body.operator()<order>() for the order of p.
template <typename Body>
void with_order(double p, const Body& body) {
  switch (order_of(p)) {
    case Order::Zero:
      return body.template operator()<Order::Zero>();
    case Order::One:
      return body.template operator()<Order::One>();
    case Order::Two:
      return body.template operator()<Order::Two>();
    case Order::Infinite:
      return body.template operator()<Order::Infinite>();
    case Order::Other:
      return body.template operator()<Order::Other>();
  }
}

const distance::Loops& loops_of(ScalarType type) {
  static const LoopTable<distance::Loops> table = FLAMBEAU_LOOP_TABLE(distance);
  return table[type == ScalarType::Float64];
}

// n rows of k elements as loops take them. Parallel where the caller is not.
template <typename T>
std::unique_ptr<T[]> packed_rows(const distance::Loops& loops, int64_t n, int64_t k,
                                 const T* rows) {
  const int64_t width = loops.width, blocks = (n + width - 1) / width;
  std::unique_ptr<T[]> packed(new T[static_cast<size_t>(blocks * width * k)]);
  parallel_for(0, blocks, width * k * 4, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * width, last = std::min(n, end * width);
    loops.pack(last - first, k, rows + first * k, packed.get() + first * k);
  });
  return packed;
}

// One matrix of distances. Parallel where the caller is not.
template <typename T>
void all_pairs(const Tensor& left, const Tensor& right, int64_t batch, double p,
               const Tensor& out) {
  const distance::Loops& loops = loops_of(left.dtype());
  const int64_t m = left.size(1), n = right.size(1), k = left.size(2);
  const T* a = left.data_as<T>() + batch * m * k;
  T* to = out.data_as<T>() + batch * m * n;
  const auto packed = packed_rows(loops, n, k, right.data_as<T>() + batch * n * k);
  const auto run = loops.distances[static_cast<int>(order_of(p))];
  parallel_for(0, m, n * std::max<int64_t>(k / 4, 1), [&](int64_t begin, int64_t end) {
    run(end - begin, n, k, a + begin * k, packed.get(), p, to + begin * n);
  });
}

}  // namespace

void cdist_cpu(const Tensor& x1, const Tensor& x2, double p, Tensor& result) {
  if (result.numel() == 0) return;
  const ScalarType type = compute_type(x1.dtype());
  if (!is_floating_type(x1.dtype())) fail_dtype("cdist", x1.dtype());
  const Tensor left = contiguous_tensor(cast_tensor(x1, type));
  const Tensor right = contiguous_tensor(cast_tensor(x2, type));
  const Tensor out = result.dtype() == type ? result : empty_tensor(result.sizes(), type);
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(type, "cdist", [&]<typename T>() {
    parallel_for(0, x1.size(0), x1.size(1) * x2.size(1) * std::max<int64_t>(x1.size(2), 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) all_pairs<T>(left, right, b, p, out);
                 });
  });
  if (!out.is_same(result)) copy_into(result, out);
}

// Every row of the first half has its counterpart at the end, so that parts of a parallel region
// hold equally many pairs.
void pdist_cpu(const Tensor& self, double p, Tensor& result) {
  if (result.numel() == 0) return;
  const ScalarType type = compute_type(self.dtype());
  if (!is_floating_type(self.dtype())) fail_dtype("pdist", self.dtype());
  const Tensor rows = contiguous_tensor(cast_tensor(self, type));
  const Tensor out = result.dtype() == type ? result : empty_tensor(result.sizes(), type);
  const int64_t n = self.size(0), k = self.size(1), half = (n + 1) / 2;
  const distance::Loops& loops = loops_of(type);
  const auto run = loops.pairs[static_cast<int>(order_of(p))];
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(type, "pdist", [&]<typename T>() {
    const T* in = rows.data_as<T>();
    const auto packed = packed_rows(loops, n, k, in);
    parallel_for(0, half, n * std::max<int64_t>(k / 4, 1), [&](int64_t begin, int64_t end) {
      run(begin, end, n, k, in, packed.get(), p, out.data());
      run(std::max(half, n - end), n - begin, n, k, in, packed.get(), p, out.data());
    });
  });
  if (!out.is_same(result)) copy_into(result, out);
}

void cdist_gradient_cpu(const Tensor& gradient, const Tensor& x1, const Tensor& x2, double p,
                        const Tensor& distance, Tensor& result) {
  const Tensor left = contiguous_tensor(x1), right = contiguous_tensor(x2);
  const Tensor incoming = contiguous_tensor(gradient), norms = contiguous_tensor(distance);
  const int64_t m = x1.size(1), n = x2.size(1), k = x1.size(2);
  if (result.numel() == 0) return;
  dispatch_floating(x1.dtype(), "cdist", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const T* a = left.data_as<T>();
    const T* b = right.data_as<T>();
    with_order(p, [&]<Order kOrder>() {
      parallel_for(0, x1.size(0) * m, n * k, [&](int64_t begin, int64_t end) {
        std::vector<Acc> sum(static_cast<size_t>(k));
        for (int64_t row = begin; row < end; ++row) {
          std::fill(sum.begin(), sum.end(), Acc(0));
          for (int64_t j = 0; j < n && kOrder != Order::Zero; ++j) {
            const Acc norm = Acc(norms.data_as<T>()[row * n + j]);
            const Acc scale = Acc(incoming.data_as<T>()[row * n + j]);
            if (norm == 0) continue;
            const T* other = b + (row / m * n + j) * k;
            for (int64_t i = 0; i < k; ++i)
              sum[static_cast<size_t>(i)] +=
                  scale * slope<kOrder, Acc>(Acc(a[row * k + i]) - Acc(other[i]), norm, Acc(p));
          }
          for (int64_t i = 0; i < k; ++i)
            result.data_as<T>()[row * k + i] = static_cast<T>(sum[static_cast<size_t>(i)]);
        }
      });
    });
  });
}

}  // namespace ops

namespace shape {

void cdist(const Tensor& x1, const Tensor& x2, OutSpec* out) {
  check(x1.dtype() == x2.dtype(), "cdist: expected both inputs of one dtype, got ", x1.dtype(),
        " and ", x2.dtype());
  check(x1.dim() == 3 && x2.dim() == 3 && x1.size(0) == x2.size(0) && x1.size(2) == x2.size(2),
        "_cdist: expected inputs (B, M, K) and (B, N, K), got ", x1, " and ", x2);
  sized(x1, {x1.size(0), x1.size(1), x2.size(1)}, out);
}

void pdist(const Tensor& self, OutSpec* out) {
  check(self.dim() == 2, "pdist: expected a matrix, got ", self);
  const int64_t n = self.size(0);
  sized(self, {n == 0 ? 0 : product_of("pdist", n, n - 1) / 2}, out);
}

void cdist_gradient(const Tensor& gradient, const Tensor& x1, const Tensor& x2,
                    const Tensor& distance, OutSpec* out) {
  OutSpec forward;
  cdist(x1, x2, &forward);
  check_grad_output("_cdist_gradient", gradient, forward.sizes);
  check(distance.sizes() == forward.sizes.ref() && distance.dtype() == x1.dtype() &&
            gradient.dtype() == x1.dtype(),
        "_cdist_gradient: expected distance of shape ", forward.sizes, " and all of type ",
        x1.dtype(), ", got ", distance, " and a gradient ", gradient);
  like(x1, out);
}

}  // namespace shape
}  // namespace flambeau
