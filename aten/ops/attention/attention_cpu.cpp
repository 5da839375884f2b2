// Attention on CPU. It never holds more scores than one block of queries by one block of keys.
// Formula: output = softmax(scale Q K^T + mask) V. A row keeps the largest score and the sum of
// exponentials seen so far; a larger score scales what was summed. Backward computes the weights
// again from the saved logarithm of the row's sum:
//   dV = P^T dO,  dS = scale P (dO V^T - rowsum(dO O)),  dQ = dS K,  dK = dS^T Q.
// Accumulates in: the dtype; float32 for half types.
// NaN, infinity: NaN in a row's scores gives NaN; a row that attends to nothing gives 0.
// Error: 16 eps of the largest magnitude in V, tested against float64.
// Source: Milakov and Gimelshein 2018; Dao et al. 2022.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/attention/attention_loops.h"
#include "aten/ops/matmul/gemm.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/attention_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(attention::Loops, attention_blocks)

namespace ops {
namespace {

constexpr int64_t kRows = 64, kColumns = 512;

const attention::Loops& loops_of(ScalarType dtype) {
  static const LoopTable<attention::Loops> table = FLAMBEAU_LOOP_TABLE(attention_blocks);
  return table[dtype == ScalarType::Float64];
}

// The matrices of one batch of tensors, all in the compute type.
struct Stack {
  Tensor tensor;
  std::vector<int64_t> offsets;  // in elements
  explicit Stack(const Tensor& t) : tensor(t), offsets{0} {
    for (int64_t d = 0; d + 2 < t.dim(); ++d) {
      std::vector<int64_t> next;
      for (const int64_t o : offsets) {
        for (int64_t i = 0; i < t.size(d); ++i) next.push_back(o + i * t.stride(d));
      }
      offsets = std::move(next);
    }
  }
  const char* at(int64_t batch, int64_t row) const {
    const int64_t place = offsets[static_cast<size_t>(batch)] + row * tensor.stride(-2);
    return static_cast<const char*>(tensor.data()) +
           place * static_cast<int64_t>(element_size(tensor.dtype()));
  }
  gemm::Matrix rows(int64_t batch, int64_t first, int64_t count) const {
    return {at(batch, first), count, tensor.size(-1), tensor.stride(-2), tensor.stride(-1)};
  }
};

// Rows of matrices side by side: oneDNN has quicker kernels for them, and generates those for other
// strides in 24 to 37 ms at the first use. A copy takes less than it saves, except of a tensor that
// repeats matrices.
Tensor usable(const Tensor& t, ScalarType compute) {
  const Tensor cast = cast_tensor(t, compute);
  if (cast.stride(-1) == 1 && cast.stride(-2) == cast.size(-1)) return cast;
  const bool is_strided = cast.stride(-1) == 1 || cast.stride(-2) == 1;
  for (int64_t d = 0; d < cast.dim(); ++d) {
    if (is_strided && cast.stride(d) == 0 && cast.size(d) > 1) return cast;
  }
  return contiguous_tensor(cast);
}

// The mask as a tensor of shape (batch..., rows, columns), bool or in the compute type.
Tensor spread_mask(const Tensor& mask, const Tensor& query, int64_t columns, ScalarType compute) {
  if (!mask.defined()) return mask;
  const Tensor cast = mask.dtype() == ScalarType::Bool ? mask : cast_tensor(mask, compute);
  DimVector sizes(query.sizes()), strides(query.sizes().size(), 0);
  sizes.back() = columns;
  const size_t lead = sizes.size() - cast.sizes().size();
  for (size_t d = 0; d < cast.sizes().size(); ++d) {
    if (cast.sizes()[d] != 1) strides[lead + d] = cast.strides()[d];
  }
  return plain_view(cast, {sizes, strides, cast.storage_offset(), cast.dtype()});
}

struct Problem {
  ScalarType compute;
  Stack query, key, value;
  std::optional<Stack> mask;
  double scale;
  bool is_causal;
  int64_t batch, rows, columns;

  Problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& m, double factor,
          bool causal)
      : compute(compute_type(q.dtype())),
        query(usable(q, compute)),
        key(usable(k, compute)),
        value(usable(v, compute)),
        scale(factor),
        is_causal(causal),
        batch(static_cast<int64_t>(query.offsets.size())),
        rows(q.size(-2)),
        columns(k.size(-2)) {
    if (m.defined()) mask.emplace(spread_mask(m, q, columns, compute));
  }
  // How many of the keys from `column` on any of the rows before `row_end` sees.
  int64_t columns_from(int64_t column, int64_t row_end) const {
    const int64_t end = is_causal ? std::min(columns, row_end) : columns;
    return std::clamp<int64_t>(end - column, 0, kColumns);
  }
  attention::Block block(int64_t b, int64_t row, int64_t count, int64_t column, int64_t width,
                         void* scores) const {
    attention::Block out{
        count, width, scores, scale, nullptr, 0, 0, false, is_causal ? row - column + 1 : columns};
    if (mask) {
      out.mask_is_bool = mask->tensor.dtype() == ScalarType::Bool;
      out.mask_row_stride = mask->tensor.stride(-2);
      out.mask_col_stride = mask->tensor.stride(-1);
      out.mask = mask->at(b, row) + column * out.mask_col_stride *
                                        static_cast<int64_t>(element_size(mask->tensor.dtype()));
    }
    return out;
  }
  // scores = the products of `count` queries with `width` keys.
  void products(int64_t b, int64_t row, int64_t count, int64_t column, int64_t width,
                void* scores) const {
    gemm::multiply(compute, query.rows(b, row, count), gemm::transposed(key.rows(b, column, width)),
                   scores, width, false);
  }
};

template <typename T>
gemm::Matrix row_major(const T* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}

template <typename T>
struct Buffers {
  std::vector<T> scores, acc, top, sum;
  explicit Buffers(const Problem& p)
      : scores(static_cast<size_t>(kRows * std::min(p.columns, kColumns))),
        acc(static_cast<size_t>(kRows * p.value.tensor.size(-1))),
        top(static_cast<size_t>(kRows)),
        sum(static_cast<size_t>(kRows)) {}
};

template <typename T>
void forward_rows(const Problem& p, int64_t b, int64_t row, Buffers<T>& buffers, T* out, T* lse) {
  const int64_t count = std::min(kRows, p.rows - row), width = p.value.tensor.size(-1);
  const attention::Loops& loops = loops_of(p.compute);
  std::ranges::fill(buffers.acc, T(0));
  std::ranges::fill(buffers.sum, T(0));
  std::ranges::fill(buffers.top, -std::numeric_limits<T>::infinity());
  T* scores = buffers.scores.data();
  for (int64_t column = 0; column < p.columns; column += kColumns) {
    const int64_t keys = p.columns_from(column, row + count);
    if (keys == 0) break;
    p.products(b, row, count, column, keys, scores);
    loops.accumulate(p.block(b, row, count, column, keys, scores), buffers.top.data(),
                     buffers.sum.data(), buffers.acc.data(), width);
    gemm::multiply(p.compute, row_major(scores, count, keys), p.value.rows(b, column, keys),
                   buffers.acc.data(), width, true);
  }
  for (int64_t r = 0; r < count; ++r) {
    const auto at = static_cast<size_t>(r);
    const T sum = buffers.sum[at], share = sum == T(0) ? T(0) : T(1) / sum;
    for (int64_t j = 0; j < width; ++j) {
      out[(row + r) * width + j] =
          buffers.acc[at * static_cast<size_t>(width) + static_cast<size_t>(j)] * share;
    }
    lse[row + r] = buffers.top[at] + std::log(sum);
  }
}

// One batch element's gradients, all row-major.
template <typename T>
struct Grads {
  T *query, *key, *value;
};

template <typename T>
void backward_matrix(const Problem& p, int64_t b, const T* grad, const T* own, const T* lse,
                     const Grads<T>& to) {
  const int64_t width = p.value.tensor.size(-1), depth = p.query.tensor.size(-1);
  const attention::Loops& loops = loops_of(p.compute);
  const auto size = static_cast<size_t>(kRows * std::min(p.columns, kColumns));
  std::vector<T> weights(size), slopes(size);
  for (int64_t column = 0; column < p.columns; column += kColumns) {
    for (int64_t row = 0; row < p.rows; row += kRows) {
      const int64_t count = std::min(kRows, p.rows - row);
      const int64_t keys = p.columns_from(column, row + count);
      if (keys == 0) continue;
      const attention::Block block = p.block(b, row, count, column, keys, weights.data());
      p.products(b, row, count, column, keys, weights.data());
      loops.weights(block, lse + row);
      const gemm::Matrix w = row_major(weights.data(), count, keys);
      const gemm::Matrix g = row_major(grad + row * width, count, width);
      gemm::multiply(p.compute, gemm::transposed(w), g, to.value + column * width, width, true);
      gemm::multiply(p.compute, g, gemm::transposed(p.value.rows(b, column, keys)), slopes.data(),
                     keys, false);
      loops.grads(block, weights.data(), slopes.data(), own + row);
      const gemm::Matrix s = row_major(slopes.data(), count, keys);
      gemm::multiply(p.compute, s, p.key.rows(b, column, keys), to.query + row * depth, depth,
                     true);
      gemm::multiply(p.compute, gemm::transposed(s), p.query.rows(b, row, count),
                     to.key + column * depth, depth, true);
    }
  }
}

// The sums of a * b over rows of `width` elements.
template <typename T>
std::vector<T> row_products(const T* a, const T* b, int64_t rows, int64_t width) {
  std::vector<T> out(static_cast<size_t>(rows));
  parallel_for(0, rows, 2 * width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T sum = 0;
      for (int64_t j = r * width; j < (r + 1) * width; ++j) sum += a[j] * b[j];
      out[static_cast<size_t>(r)] = sum;
    }
  });
  return out;
}

}  // namespace

void attention_cpu(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                   double scale, bool is_causal, Tensor& output, Tensor& logsumexp) {
  if (output.numel() == 0) return;
  const Problem p(query, key, value, mask, scale, is_causal);
  const bool direct = output.dtype() == p.compute;
  const Tensor out = direct ? output : empty_tensor(output.sizes(), p.compute);
  const int64_t blocks = (p.rows + kRows - 1) / kRows, width = value.size(-1);
  const int64_t cost = kRows * p.columns * (query.size(-1) + width) / 8;
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      p.compute, "attention", [&]<typename T>() {
        parallel_for(0, p.batch * blocks, cost, [&](int64_t begin, int64_t end) {
          Buffers<T> buffers(p);
          for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / blocks;
            forward_rows(p, b, i % blocks * kRows, buffers, out.data_as<T>() + b * p.rows * width,
                         logsumexp.data_as<T>() + b * p.rows);
          }
        });
      });
  if (!direct) copy_into(output, out);
}

void attention_backward_cpu(const Tensor& grad_output, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor& mask, const Tensor& output,
                            const Tensor& logsumexp, double scale, bool is_causal,
                            Tensor& grad_query, Tensor& grad_key, Tensor& grad_value) {
  const Problem p(query, key, value, mask, scale, is_causal);
  const auto row_major_cast = [&](const Tensor& t) {
    return contiguous_tensor(cast_tensor(t, p.compute));
  };
  const Tensor grad = row_major_cast(grad_output), out = row_major_cast(output),
               lse = row_major_cast(logsumexp);
  Tensor* const wanted[] = {&grad_query, &grad_key, &grad_value};
  Tensor sums[3];
  for (int i = 0; i < 3; ++i) sums[i] = zeros_tensor(wanted[i]->sizes(), p.compute);
  const int64_t width = value.size(-1), depth = query.size(-1);
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(
      p.compute, "attention", [&]<typename T>() {
        const std::vector<T> own =
            row_products(grad.data_as<T>(), out.data_as<T>(), p.batch * p.rows, width);
        parallel_for(
            0, p.batch, p.rows * p.columns * (depth + width) / 4, [&](int64_t begin, int64_t end) {
              for (int64_t b = begin; b < end; ++b) {
                const Grads<T> to{sums[0].data_as<T>() + b * p.rows * depth,
                                  sums[1].data_as<T>() + b * p.columns * depth,
                                  sums[2].data_as<T>() + b * p.columns * width};
                backward_matrix(p, b, grad.data_as<T>() + b * p.rows * width,
                                own.data() + b * p.rows, lse.data_as<T>() + b * p.rows, to);
              }
            });
      });
  for (int i = 0; i < 3; ++i) copy_into(*wanted[i], sums[i]);
}

}  // namespace ops

namespace shape {
namespace {

IntArrayRef batch_of(const Tensor& t) { return t.sizes().slice(0, t.sizes().size() - 2); }

}  // namespace

void attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
               OutSpec* out) {
  check(query.dim() >= 2 && key.dim() == query.dim() && value.dim() == query.dim(),
        "_attention: expected query, key and value of equally many dimensions, at least 2, got ",
        query, ", ", key, " and ", value);
  const bool fits = batch_of(key) == batch_of(query) && batch_of(value) == batch_of(query) &&
                    key.size(-1) == query.size(-1) && value.size(-2) == key.size(-2);
  check(fits, "_attention: expected query (*, L, E), key (*, S, E) and value (*, S, Ev), got ",
        query, ", ", key, " and ", value);
  if (!is_floating_type(query.dtype())) fail_dtype("scaled_dot_product_attention", query.dtype());
  DimVector rows(query.sizes()), scores(query.sizes());
  rows.pop_back();
  scores.back() = key.size(-2);
  check(!mask.defined() || is_broadcastable_to(mask.sizes(), scores),
        "scaled_dot_product_attention: expected attn_mask that broadcasts to ", scores, ", got ",
        mask.defined() ? mask.sizes() : IntArrayRef());
  DimVector sizes(query.sizes());
  sizes.back() = value.size(-1);
  out[0] = {sizes, {}, query.dtype(), query.device()};
  out[1] = {rows, {}, compute_type(query.dtype()), query.device()};
}

void attention_backward(const Tensor& grad_output, const Tensor& query, const Tensor& key,
                        const Tensor& value, const Tensor& mask, const Tensor& output,
                        const Tensor& logsumexp, OutSpec* out) {
  OutSpec forward[2];
  attention(query, key, value, mask, forward);
  check_grad_output("_attention_backward", grad_output, forward[0].sizes);
  check(output.sizes() == forward[0].sizes.ref() && logsumexp.sizes() == forward[1].sizes.ref(),
        "_attention_backward: expected output of shape ", forward[0].sizes, " and logsumexp of ",
        forward[1].sizes, ", got ", output, " and ", logsumexp);
  like(query, out);
  like(key, out + 1);
  like(value, out + 2);
}

}  // namespace shape
}  // namespace flambeau
