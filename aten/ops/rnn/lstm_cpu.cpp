// The recurrence of a long short-term memory over the steps of a sequence on CPU. Threads divide
// the batch and run all steps of their rows, so they never wait for each other.
// Formula: with s = gates[t] + h[t-1] W^T = (i, f, g, o) before their functions:
//   c[t] = sigmoid(f) c[t-1] + sigmoid(i) tanh(g),  h[t] = sigmoid(o) tanh(c[t]).
// Backward, from the last step: dc = dc[t] + dh o (1 - tanh(c[t])^2), the gradients of the sums are
// dc g i (1-i), dc c[t-1] f (1-f), dc i (1-g^2), dh tanh(c[t]) o (1-o); then dh = ds W, dc = dc f.
// Accumulates in: the dtype; half types compute in float32.
// NaN, infinity: both follow IEEE arithmetic and pass to all later steps of their row.
// Error: hidden * eps times the sum of |h| |W| at each step, tested against float64.
// Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000; Werbos 1990 (backward through time).
#include <algorithm>
#include <cstring>
#include <memory>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/matmul/gemm.h"
#include "aten/ops/rnn/lstm_loops.h"
#include "c10/core/dtype_dispatch.h"
#include "c10/core/interrupt.h"
#include "torchgen_out/aten/rnn_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(lstm::Loops, lstm_cells)

namespace shape {
namespace {

// (steps, rows, hidden size) of a sequence.
struct Extent {
  int64_t steps, rows, hidden;
};

Extent check_sequence(const char* op, const Tensor& gates, const Tensor& c, const Tensor& weight) {
  check(gates.dim() == 3 && c.dim() == 2 && weight.dim() == 2, op,
        ": expected gates of 3 dimensions, a state and a weight of 2, got ", gates, ", ", c,
        " and ", weight);
  const Extent e{gates.size(0), gates.size(1), c.size(1)};
  check(e.steps > 0, op, ": expected 1 step or more, got ", gates);
  check(gates.size(2) == 4 * e.hidden && c.size(0) == e.rows && weight.size(0) == 4 * e.hidden &&
            weight.size(1) == e.hidden,
        op,
        ": expected gates (steps, batch, 4 * hidden), a state (batch, hidden) and a weight (4 * "
        "hidden, hidden), got ",
        gates, ", ", c, " and ", weight);
  return e;
}

void check_alike(const char* op, const Tensor& gates, const Tensor& other) {
  check(other.dtype() == gates.dtype() && other.device() == gates.device(), op,
        ": expected tensors of one dtype and device, got ", gates, " and ", other);
}

}  // namespace

void lstm(const Tensor& gates, const Tensor& h, const Tensor& c, const Tensor& weight,
          bool with_gates, OutSpec* out) {
  const Extent e = check_sequence("_lstm", gates, c, weight);
  check(h.sizes() == c.sizes(), "_lstm: expected states of one shape, got ", h, " and ", c);
  for (const Tensor* t : {&h, &c, &weight}) check_alike("_lstm", gates, *t);
  sized(gates, {e.steps, e.rows, e.hidden}, out);
  sized(gates, {e.steps, e.rows, e.hidden}, out + 1);
  sized(gates, {with_gates ? e.steps : 0, e.rows, 4 * e.hidden}, out + 2);
}

void lstm_backward(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& activated,
                   const Tensor& cells, const Tensor& c, const Tensor& weight, OutSpec* out) {
  const Extent e = check_sequence("_lstm_backward_steps", activated, c, weight);
  const DimVector sizes{e.steps, e.rows, e.hidden};
  for (const Tensor* t : {&grad_output, &grad_cells, &cells}) {
    if (!t->defined()) continue;
    check(t->sizes() == IntArrayRef(sizes),
          "_lstm_backward_steps: expected gradients and cells of "
          "shape ",
          IntArrayRef(sizes), ", got ", *t);
    check_alike("_lstm_backward_steps", activated, *t);
  }
  for (const Tensor* t : {&c, &weight}) check_alike("_lstm_backward_steps", activated, *t);
  sized(activated, activated.sizes(), out);
  sized(c, c.sizes(), out + 1);
  sized(c, c.sizes(), out + 2);
}

}  // namespace shape

namespace ops {
namespace {

const lstm::Loops& loops_for(ScalarType dtype) {
  static const LoopTable<lstm::Loops> table = FLAMBEAU_LOOP_TABLE(lstm_cells);
  return table[dtype == ScalarType::Float64];
}

Tensor dense(const Tensor& t, ScalarType dtype) { return contiguous_tensor(cast_tensor(t, dtype)); }

// A result in the type and layout of the loops; `deliver` moves it to its place.
struct Target {
  const Tensor& place;
  Tensor dense;
  Target(const Tensor& result, ScalarType dtype)
      : place(result),
        dense(result.is_contiguous() && result.dtype() == dtype
                  ? result
                  : empty_tensor(result.sizes(), dtype)) {}
  void deliver() const {
    if (dense.impl() != place.impl()) copy_into(place, dense);
  }
};

// The rows of one part of the batch. Products of few rows read all of the weight, so parts have
// rows to share it; a part that is the whole batch leaves its products to all threads.
constexpr int64_t kRowsOfPart = 4;

template <typename Body>
void each_part(int64_t rows, int64_t cost, const Body& body) {
  const int64_t grain = std::max(kRowsOfPart, kSerialCost / std::max<int64_t>(cost, 1));
  if (rows <= grain) return body(0, rows);
  parallel_ranges(
      0, rows, grain,
      [](void* context, int64_t b, int64_t e) { (*static_cast<const Body*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// Addresses of rows of a dense (steps, batch, width) tensor.
class Steps {
 public:
  Steps(const Tensor& t, int64_t rows, int64_t width)
      : data_(static_cast<char*>(const_cast<void*>(t.data()))),
        row_(width * static_cast<int64_t>(element_size(t.dtype()))),
        step_(rows * row_) {}
  char* at(int64_t step, int64_t row) const { return data_ + step * step_ + row * row_; }
  size_t bytes(int64_t rows) const { return static_cast<size_t>(rows * row_); }

 private:
  char* data_;
  int64_t row_, step_;
};

// out = addend + a * b, row-major.
void multiply_and_add(ScalarType dtype, const gemm::Matrix& a, const gemm::Matrix& b,
                      const char* addend, size_t bytes, char* out) {
  if (gemm::multiply_few_rows_and_add(dtype, a, b, {addend, a.rows, b.cols, b.cols, 1}, out))
    return;
  std::memcpy(out, addend, bytes);
  gemm::multiply(dtype, a, b, out, b.cols, true);
}

// Adds rows of one step of a dense (steps, batch, hidden) tensor, unless that is absent.
void add_rows(const Tensor& t, int64_t step, int64_t begin, int64_t end, char* to) {
  if (!t.defined()) return;
  const char* const from = Steps(t, t.size(1), t.size(2)).at(step, begin);
  const int64_t n = (end - begin) * t.size(2);
  dispatch_types<ScalarType::Float32, ScalarType::Float64>(t.dtype(), "_lstm", [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i)
      reinterpret_cast<T*>(to)[i] += reinterpret_cast<const T*>(from)[i];
  });
}

}  // namespace

void lstm_cpu(const Tensor& gates, const Tensor& h, const Tensor& c, const Tensor& weight,
              bool reverse, bool with_gates, Tensor& output, Tensor& cells, Tensor& activated) {
  const ScalarType dtype = compute_type(gates.dtype());
  const int64_t steps = gates.size(0), rows = gates.size(1), hidden = c.size(1);
  if (rows == 0 || hidden == 0) return;
  const Tensor sums = dense(gates, dtype), first_h = dense(h, dtype), first_c = dense(c, dtype);
  const Tensor matrix = dense(weight, dtype);
  const Tensor columns =
      contiguous_tensor(plain_view(matrix, {DimVector{hidden, 4 * hidden}, DimVector{1, hidden},
                                            matrix.storage_offset(), dtype}));
  const Target to_output(output, dtype), to_cells(cells, dtype), to_gates(activated, dtype);
  const Steps in(sums, rows, 4 * hidden), out(to_output.dense, rows, hidden);
  const Steps state(to_cells.dense, rows, hidden), kept(to_gates.dense, rows, 4 * hidden);
  const Steps h0(first_h, rows, hidden), c0(first_c, rows, hidden);
  const gemm::Matrix w{columns.data(), hidden, 4 * hidden, 4 * hidden, 1};
  const lstm::Loops& loops = loops_for(dtype);
  each_part(rows, steps * hidden * hidden, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const std::unique_ptr<char[]> scratch(with_gates ? nullptr : new char[in.bytes(count)]);
    for (int64_t k = 0; k < steps; ++k) {
      check_interrupt();
      const int64_t t = reverse ? steps - 1 - k : k, before = reverse ? t + 1 : t - 1;
      const char* const h_before = k == 0 ? h0.at(0, begin) : out.at(before, begin);
      char* const sum = with_gates ? kept.at(t, begin) : scratch.get();
      multiply_and_add(dtype, {h_before, count, hidden, hidden, 1}, w, in.at(t, begin),
                       in.bytes(count), sum);
      loops.step({count, hidden}, sum, k == 0 ? c0.at(0, begin) : state.at(before, begin),
                 state.at(t, begin), out.at(t, begin));
    }
  });
  for (const Target* target : {&to_output, &to_cells, &to_gates}) target->deliver();
}

void lstm_backward_cpu(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& activated,
                       const Tensor& cells, const Tensor& c, const Tensor& weight, bool reverse,
                       Tensor& grad_gates, Tensor& grad_h, Tensor& grad_c) {
  const ScalarType dtype = compute_type(activated.dtype());
  const int64_t steps = activated.size(0), rows = activated.size(1), hidden = c.size(1);
  if (rows == 0 || hidden == 0) return;
  const auto dense_if = [&](const Tensor& t) { return t.defined() ? dense(t, dtype) : t; };
  const Tensor from_output = dense_if(grad_output), from_cells = dense_if(grad_cells);
  const Tensor all_gates = dense(activated, dtype), all_cells = dense(cells, dtype);
  const Tensor first_c = dense(c, dtype), matrix = dense(weight, dtype);
  const Target to_gates(grad_gates, dtype), to_h(grad_h, dtype), to_c(grad_c, dtype);
  const Steps kept(all_gates, rows, 4 * hidden), state(all_cells, rows, hidden);
  const Steps c0(first_c, rows, hidden), grads(to_gates.dense, rows, 4 * hidden);
  const Steps dh(to_h.dense, rows, hidden), dc(to_c.dense, rows, hidden);
  const gemm::Matrix w{matrix.data(), 4 * hidden, hidden, hidden, 1};
  const lstm::Loops& loops = loops_for(dtype);
  each_part(rows, steps * hidden * hidden, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    std::memset(dh.at(0, begin), 0, dh.bytes(count));
    std::memset(dc.at(0, begin), 0, dc.bytes(count));
    for (int64_t k = steps - 1; k >= 0; --k) {
      check_interrupt();
      const int64_t t = reverse ? steps - 1 - k : k, before = reverse ? t + 1 : t - 1;
      add_rows(from_output, t, begin, end, dh.at(0, begin));
      add_rows(from_cells, t, begin, end, dc.at(0, begin));
      loops.backward({count, hidden}, kept.at(t, begin),
                     k == 0 ? c0.at(0, begin) : state.at(before, begin), state.at(t, begin),
                     dh.at(0, begin), dc.at(0, begin), grads.at(t, begin));
      gemm::multiply(dtype, {grads.at(t, begin), count, 4 * hidden, 4 * hidden, 1}, w,
                     dh.at(0, begin), hidden, false);
    }
  });
  for (const Target* target : {&to_gates, &to_h, &to_c}) target->deliver();
}

}  // namespace ops
}  // namespace flambeau
