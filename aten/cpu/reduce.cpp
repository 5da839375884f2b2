// The reduction driver. Dimensions are split into kept and reduced ones, each sorted and joined.
// Where the reduced elements lie closest in memory, each output runs `inner` along its fibers;
// where the kept ones do, a run of outputs accumulates row after row by `outer`. Threads share the
// outputs, or parts of long fibers and merge.
#include "aten/cpu/reduce.h"

#include <algorithm>
#include <memory>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/cpu/cascade.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/scratch.h"
#include "c10/core/interrupt.h"

namespace flambeau {
namespace {

constexpr int64_t kPartCost = 2 * kSerialCost;  // of one thread's part in parallel_for
// How many elements of a fiber, or rows, are reduced between two checks for an interrupt.
constexpr int64_t kLongFiber = int64_t{1} << 26;
constexpr int64_t kRowsPerCheck = 256;

struct Side {
  CastLoop cast;  // to the compute type; from the loop's output type for the result
  int64_t own_bytes;
  int64_t loop_bytes;
  bool same_type;
};

class Reduction {
 public:
  Reduction(const ReduceOp& op, const PointwiseDTypes& types, ArrayRef<const Tensor*> operands,
            uint64_t mask, const Tensor& out, ArrayRef<Scalar> params);
  void run();

 private:
  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  void split_dims(ArrayRef<const Tensor*> operands, IntArrayRef sizes, uint64_t mask,
                  const Tensor& out);
  void add_operand(const Tensor& t, IntArrayRef sizes, uint64_t mask);
  void accumulate(Range outputs, Range reduced, char* acc) const;
  void accumulate_fibers(Range outputs, Range reduced, char* acc) const;
  void accumulate_rows(Range outputs, Range reduced, char* acc) const;
  void reduce_fiber(char* const* bases, Range reduced, char* acc) const;
  void reduce_run(char* const* at, int64_t n, char* acc) const;
  bool fibers_in_place() const;
  void reduce_rows(char* const* bases, int64_t n, Range reduced, char* acc) const;
  int64_t rows_at_once(int64_t n) const;
  void reduce_blocks(char* const* bases, int64_t n, int64_t rows, Range reduced, char* acc) const;
  bool in_place(int a, int64_t n, int64_t stride) const;
  char* buffer_for(int a, int64_t n, int64_t stride, Scratch<>& scratch) const;
  const char* column(int a, const char* data, int64_t n, int64_t stride, char* buffer) const;
  void finish(Range outputs, const char* acc) const;
  void finish_run(char* const* at, int64_t n, const char* acc) const;
  void run_over_outputs() const;
  void run_over_fibers(int parts) const;
  template <typename Body>
  void each_kept_run(Range outputs, const Body& body) const;

  const ReduceLoops& loops_;
  int operands_;
  int first_let_;
  size_t acc_size_;
  int64_t outputs_ = 1;
  int64_t count_ = 1;
  bool by_rows_ = false;
  StridedLoop kept_;     // arrays: operands, then the output
  StridedLoop reduced_;  // arrays: operands
  Side sides_[kMaxArrays];
  alignas(16) char params_[16 * kMaxParams];
};

// What the loops read: the compute type, or where they take it as it is the operands' own.
ScalarType stored_type(const ReduceOp& op, ScalarType compute, ArrayRef<const Tensor*> operands) {
  const ScalarType own = operands[0]->dtype();
  for (const Tensor* t : operands) {
    if (t->dtype() != own) return compute;
  }
  const bool reads = is_reduced_floating_type(own) && compute == ScalarType::Float32 &&
                     op.loops[index_of(own)].init;
  return reads ? own : compute;
}

const ReduceLoops& loops_of(const ReduceOp& op, ScalarType compute) {
  const ReduceLoops& loops = op.loops[index_of(compute)];
  if (!loops.init) fail_dtype(op.name, compute);
  return loops;
}

Reduction::Reduction(const ReduceOp& op, const PointwiseDTypes& types,
                     ArrayRef<const Tensor*> operands, uint64_t mask, const Tensor& out,
                     ArrayRef<Scalar> params)
    : loops_(loops_of(op, stored_type(op, types.compute, operands))),
      operands_(static_cast<int>(operands.size())),
      first_let_(op.num_operands - op.num_let),
      acc_size_(op.acc_size[index_of(types.compute)]) {
  store_params(op.name, params, types.compute, params_);
  const ScalarType stored = stored_type(op, types.compute, operands);
  const int64_t width = static_cast<int64_t>(element_size(stored));
  for (int a = 0; a < operands_; ++a) {
    const Tensor& t = *operands[static_cast<size_t>(a)];
    sides_[a] = {cast_loop(t.dtype(), stored), static_cast<int64_t>(element_size(t.dtype())), width,
                 t.dtype() == stored};
  }
  sides_[operands_] = {
      cast_loop(types.loop_out, out.dtype()), static_cast<int64_t>(element_size(out.dtype())),
      static_cast<int64_t>(element_size(types.loop_out)), out.dtype() == types.loop_out};
  DimVector sizes(operands[0]->sizes());
  for (const Tensor* t : operands.slice(1, operands.size() - 1))
    sizes = broadcast_sizes(sizes, t->sizes());
  split_dims(operands, sizes, mask, out);
  const bool kept_is_closer = kept_.strides[0][0] != 0 &&
                              (reduced_.strides[0][0] == 0 ||
                               std::abs(kept_.strides[0][0]) < std::abs(reduced_.strides[0][0]));
  by_rows_ = kept_.sizes[0] >= 16 && kept_is_closer && count_ > 1;
}

// `sizes` and strides restricted to the dimensions in `mask` (or outside it), as arrays of a nest.
void Reduction::split_dims(ArrayRef<const Tensor*> operands, IntArrayRef sizes, uint64_t mask,
                           const Tensor& out) {
  DimVector kept_sizes, reduced_dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    (mask >> d & 1 ? reduced_dims : kept_sizes).push_back(sizes[d]);
  kept_.set_sizes(kept_sizes);
  reduced_.set_sizes(reduced_dims);
  outputs_ = kept_.numel();
  count_ = reduced_.numel();
  for (const Tensor* t : operands) add_operand(*t, sizes, mask);
  DimVector out_strides;
  const bool keeps = out.sizes().size() == sizes.size();
  for (size_t d = 0; d < out.sizes().size(); ++d) {
    if (!keeps || !(mask >> d & 1)) out_strides.push_back(out.strides()[d]);
  }
  kept_.add(out.data(), kept_sizes, out_strides, sides_[operands_].own_bytes);
  for (StridedLoop* nest : {&kept_, &reduced_}) {
    nest->sort();
    nest->coalesce();
  }
}

void Reduction::add_operand(const Tensor& t, IntArrayRef sizes, uint64_t mask) {
  DimVector own[2], strides[2];
  const size_t skip = sizes.size() - t.sizes().size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool reduced = mask >> d & 1;
    const bool present = d >= skip && t.sizes()[d - skip] != 1;
    own[reduced].push_back(present ? sizes[d] : 1);
    strides[reduced].push_back(present ? t.strides()[d - skip] : 0);
  }
  const int64_t bytes = sides_[kept_.arrays].own_bytes;
  kept_.add(t.data(), own[0], strides[0], bytes);
  reduced_.add(t.data(), own[1], strides[1], bytes);
}

// Whether the loop takes `n` elements of operand `a`, or of the output, where they are.
bool Reduction::in_place(int a, int64_t n, int64_t stride) const {
  return sides_[a].same_type && (stride == sides_[a].own_bytes || n == 1);
}

// Memory for `n` elements of operand `a`, or of the output; null if the loop needs none.
char* Reduction::buffer_for(int a, int64_t n, int64_t stride, Scratch<>& scratch) const {
  return in_place(a, n, stride) ? nullptr : scratch.take(n * sides_[a].loop_bytes);
}

// `n` elements of operand `a` as the loop wants them: in place, or gathered into `buffer`.
const char* Reduction::column(int a, const char* data, int64_t n, int64_t stride,
                              char* buffer) const {
  if (in_place(a, n, stride)) return data;
  const Side& side = sides_[a];
  if (stride == 0) {  // a let tensor, along a fiber
    side.cast(1, data, 0, buffer, 0);
    splat(buffer, side.loop_bytes, n, buffer);
    return buffer;
  }
  gather({const_cast<char*>(data), stride, 0, side.own_bytes, side.cast}, n, 1, buffer,
         side.loop_bytes);
  return buffer;
}

// body(addresses, n, position): runs of at most kBlock outputs along the first kept dimension.
template <typename Body>
void Reduction::each_kept_run(Range outputs, const Body& body) const {
  const int64_t width = kept_.sizes[0];
  Odometer rows(kept_, 1);
  rows.move_to(kept_.data, outputs.begin / width);
  int64_t column = outputs.begin % width;
  for (int64_t i = outputs.begin; i < outputs.end;) {
    const int64_t n = std::min({width - column, outputs.end - i, kBlock});
    char* at[kMaxArrays];
    for (int a = 0; a < kept_.arrays; ++a) at[a] = rows.data()[a] + column * kept_.strides[a][0];
    body(at, n, i - outputs.begin);
    i += n;
    column += n;
    if (column == width && i < outputs.end) {
      column = 0;
      rows.step();
    }
  }
}

// --- along fibers ----------------------------------------------------------------------------

bool Reduction::fibers_in_place() const {
  for (int a = 0; a < operands_; ++a) {
    if (!sides_[a].same_type || reduced_.strides[a][0] != sides_[a].own_bytes) return false;
  }
  return true;
}

void Reduction::reduce_run(char* const* at, int64_t n, char* acc) const {
  const int64_t steps[kMaxArrays] = {};
  if (fibers_in_place()) {
    loops_.inner(1, n, at, steps, operands_, params_, acc);
    return;
  }
  Scratch<> scratch;
  char* buffers[kMaxArrays];
  const int64_t most = std::min(kBlock, n);
  for (int a = 0; a < operands_; ++a)
    buffers[a] = buffer_for(a, most, reduced_.strides[a][0], scratch);
  Cascade cascade(loops_, 1, acc_size_);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t run = std::min(kBlock, n - i);
    char* in[kMaxArrays];
    for (int a = 0; a < operands_; ++a) {
      const int64_t stride = reduced_.strides[a][0];
      in[a] = const_cast<char*>(column(a, at[a] + i * stride, run, stride, buffers[a]));
    }
    loops_.inner(1, run, in, steps, operands_, params_, cascade.lowest());
    cascade.step();
  }
  cascade.merge_into(acc);
}

void Reduction::reduce_fiber(char* const* bases, Range reduced, char* acc) const {
  const int64_t width = reduced_.sizes[0];
  if (reduced_.ndim == 1) {
    char* at[kMaxArrays];
    for (int a = 0; a < operands_; ++a) at[a] = bases[a] + reduced.begin * reduced_.strides[a][0];
    reduce_run(at, reduced.size(), acc);
    return;
  }
  Odometer rows(reduced_, 1);
  rows.move_to(bases, reduced.begin / width);
  int64_t column = reduced.begin % width;
  Cascade cascade(loops_, 1, acc_size_);
  for (int64_t left = reduced.size(); left > 0;) {
    const int64_t run = std::min(width - column, left);
    char* at[kMaxArrays];
    for (int a = 0; a < operands_; ++a) at[a] = rows.data()[a] + column * reduced_.strides[a][0];
    reduce_run(at, run, cascade.lowest());
    cascade.step();
    left -= run;
    column = 0;
    if (left > 0) rows.step();
  }
  cascade.merge_into(acc);
}

void Reduction::accumulate_fibers(Range outputs, Range reduced, char* acc) const {
  if (reduced_.ndim == 1 && fibers_in_place()) {
    each_kept_run(outputs, [&](char* const* bases, int64_t n, int64_t position) {
      char* at[kMaxArrays];
      int64_t steps[kMaxArrays];
      for (int a = 0; a < operands_; ++a) {
        at[a] = bases[a] + reduced.begin * reduced_.strides[a][0];
        steps[a] = kept_.strides[a][0];
      }
      loops_.inner(n, reduced.size(), at, steps, operands_, params_,
                   acc + static_cast<size_t>(position) * acc_size_);
    });
    return;
  }
  Odometer at(kept_);
  at.move_to(kept_.data, outputs.begin);
  for (int64_t i = outputs.begin; i < outputs.end; ++i) {
    reduce_fiber(at.data(), reduced, acc + static_cast<size_t>(i - outputs.begin) * acc_size_);
    at.step();
  }
}

// --- row after row ---------------------------------------------------------------------------

void Reduction::reduce_rows(char* const* bases, int64_t n, Range reduced, char* acc) const {
  Scratch<> scratch;
  char* buffers[kMaxArrays];
  for (int a = 0; a < operands_; ++a) buffers[a] = buffer_for(a, n, kept_.strides[a][0], scratch);
  Cascade cascade(loops_, n, acc_size_);
  Odometer row(reduced_);
  row.move_to(bases, reduced.begin);
  const char* last[kMaxArrays] = {};
  char* in[kMaxArrays] = {};
  for (int64_t i = 0; i < reduced.size(); ++i) {
    if (i % kRowsPerCheck == 0) check_interrupt();
    for (int a = 0; a < operands_; ++a) {
      if (row.data()[a] == last[a]) continue;  // the same for every row, as let tensors are
      last[a] = row.data()[a];
      in[a] = const_cast<char*>(column(a, last[a], n, kept_.strides[a][0], buffers[a]));
    }
    loops_.outer(n, in, params_, cascade.lowest());
    cascade.step();
    row.step();
  }
  cascade.merge_into(acc);
}

// How many rows of `n` outputs follow each other without gaps and fit a block; 1 where they do not.
int64_t Reduction::rows_at_once(int64_t n) const {
  bool gapless = reduced_.ndim == 1;
  for (int a = 0; a < operands_; ++a) {
    const int64_t bytes = sides_[a].own_bytes;
    gapless &= kept_.strides[a][0] == bytes && reduced_.strides[a][0] == n * bytes;
  }
  return gapless ? std::max<int64_t>(1, kBlock / n) : 1;
}

// Short rows do not repay a step each: `rows` of them are one, whose parts are merged at the end.
void Reduction::reduce_blocks(char* const* bases, int64_t n, int64_t rows, Range reduced,
                              char* acc) const {
  const int64_t width = n * rows, blocks = reduced.size() / rows;
  Scratch<> scratch;
  char* buffers[kMaxArrays];
  for (int a = 0; a < operands_; ++a)
    buffers[a] = buffer_for(a, width, sides_[a].own_bytes, scratch);
  char* const parts = scratch.take(width * static_cast<int64_t>(acc_size_));
  Cascade cascade(loops_, width, acc_size_);
  char* in[kMaxArrays] = {};
  for (int64_t i = 0; i < blocks; ++i) {
    if (i % kRowsPerCheck == 0) check_interrupt();
    for (int a = 0; a < operands_; ++a) {
      const char* data = bases[a] + (reduced.begin + i * rows) * reduced_.strides[a][0];
      in[a] = const_cast<char*>(column(a, data, width, sides_[a].own_bytes, buffers[a]));
    }
    loops_.outer(width, in, params_, cascade.lowest());
    cascade.step();
  }
  loops_.init(width, parts);
  cascade.merge_into(parts);
  for (int64_t row = 0; row < rows; ++row) {
    loops_.merge(n, parts + static_cast<size_t>(row * n) * acc_size_, acc);
  }
  const Range rest{reduced.begin + blocks * rows, reduced.end};
  if (rest.size() > 0) reduce_rows(bases, n, rest, acc);
}

void Reduction::accumulate_rows(Range outputs, Range reduced, char* acc) const {
  each_kept_run(outputs, [&](char* const* at, int64_t n, int64_t position) {
    char* const target = acc + static_cast<size_t>(position) * acc_size_;
    const int64_t rows = rows_at_once(n);
    if (rows > 1 && reduced.size() >= 4 * rows) {
      reduce_blocks(at, n, rows, reduced, target);
    } else {
      reduce_rows(at, n, reduced, target);
    }
  });
}

void Reduction::accumulate(Range outputs, Range reduced, char* acc) const {
  loops_.init(outputs.size(), acc);
  if (reduced.size() == 0) return;
  if (by_rows_) {
    accumulate_rows(outputs, reduced, acc);
  } else {
    accumulate_fibers(outputs, reduced, acc);
  }
}

// --- results ---------------------------------------------------------------------------------

void Reduction::finish_run(char* const* at, int64_t n, const char* acc) const {
  Scratch<> scratch;
  char* lets[kMaxArrays];
  for (int a = first_let_; a < operands_; ++a) {
    const int64_t stride = kept_.strides[a][0];
    char* const buffer = buffer_for(a, n, stride, scratch);
    lets[a - first_let_] = const_cast<char*>(column(a, at[a], n, stride, buffer));
  }
  const Side& side = sides_[operands_];
  const int64_t stride = kept_.strides[operands_][0];
  char* const buffer = buffer_for(operands_, n, stride, scratch);
  loops_.finish(n, acc, lets, params_, count_, buffer ? buffer : at[operands_]);
  if (buffer) side.cast(n, buffer, side.loop_bytes, at[operands_], stride);
}

void Reduction::finish(Range outputs, const char* acc) const {
  each_kept_run(outputs, [&](char* const* at, int64_t n, int64_t position) {
    finish_run(at, n, acc + static_cast<size_t>(position) * acc_size_);
  });
}

// Each thread takes one part of the outputs: cut up further, the rows of a part would be shorter.
void Reduction::run_over_outputs() const {
  const int64_t cost = count_ * sides_[0].own_bytes / 4 + 1;
  const int64_t parts = std::clamp<int64_t>(parts_worthwhile(outputs_ * cost), 1, outputs_);
  const int64_t fibers = kLongFiber / std::max<int64_t>(count_, 1);
  const int64_t at_once = by_rows_ ? kBlock : std::clamp<int64_t>(fibers, 1, kBlock);
  parallel_for(0, parts, kPartCost, [&](int64_t first, int64_t last) {
    const int64_t begin = outputs_ * first / parts, end = outputs_ * last / parts;
    Scratch<> scratch;
    char* const acc =
        scratch.take(std::min(at_once, end - begin) * static_cast<int64_t>(acc_size_));
    for (int64_t i = begin; i < end; i += at_once) {
      const Range block{i, std::min(end, i + at_once)};
      accumulate(block, {0, count_}, acc);
      finish(block, acc);
      check_interrupt();
    }
  });
}

// Few outputs over long fibers: each part accumulates its share of every fiber.
void Reduction::run_over_fibers(int parts) const {
  const size_t stride = static_cast<size_t>(outputs_) * acc_size_;
  const std::unique_ptr<char[]> acc(new char[stride * static_cast<size_t>(parts)]);
  parallel_for(0, parts, kPartCost, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      check_interrupt();
      accumulate({0, outputs_}, {count_ * p / parts, count_ * (p + 1) / parts},
                 acc.get() + stride * static_cast<size_t>(p));
    }
  });
  for (int p = 1; p < parts; ++p)
    loops_.merge(outputs_, acc.get() + stride * static_cast<size_t>(p), acc.get());
  finish({0, outputs_}, acc.get());
}

void Reduction::run() {
  const int parts = parts_worthwhile(outputs_ * count_ * sides_[0].own_bytes / 4);
  const int64_t enough = by_rows_ ? 64 : 4;
  const int pieces = static_cast<int>(by_rows_ ? 1 : count_ / kLongFiber + 1);
  if (std::max(parts, pieces) > 1 && outputs_ < enough * parts) {
    run_over_fibers(std::max(parts, pieces));
  } else {
    run_over_outputs();
  }
}

void reduce_into(const ReduceOp& op, const Tensor& out, ArrayRef<const Tensor*> operands,
                 const std::optional<IntArrayRef>& dim, std::optional<ScalarType> dtype,
                 ArrayRef<Scalar> params) {
  if (out.numel() == 0) return;
  int64_t ndim = 0;
  for (const Tensor* t : operands) ndim = std::max(ndim, t->dim());
  const uint64_t mask = reduces_all(op, dim) ? ~uint64_t{0} : dim_mask(*dim, ndim);
  Reduction(op, reduce_dtypes(op, operands, dtype), operands, mask, out, params).run();
}

}  // namespace

Tensor reduce(const ReduceOp& op, ArrayRef<const Tensor*> operands,
              const std::optional<IntArrayRef>& dim, bool keepdim, std::optional<ScalarType> dtype,
              ArrayRef<Scalar> params) {
  Tensor out = allocate(reduce_spec(op, operands, dim, keepdim, dtype, params));
  reduce_into(op, out, operands, dim, dtype, params);
  return out;
}

Tensor& reduce_out(const ReduceOp& op, Tensor& out, ArrayRef<const Tensor*> operands,
                   const std::optional<IntArrayRef>& dim, bool keepdim,
                   std::optional<ScalarType> dtype, ArrayRef<Scalar> params) {
  OutSpec spec = reduce_spec(op, operands, dim, keepdim, dtype, params);
  if (op.rule == DTypeRule::Logical) spec.dtype = out.dtype();  // bool or uint8, both hold 0 and 1
  bool shares = grows_under(out, spec, operands);
  for (const Tensor* t : operands) shares |= overlap_of(out, *t) != Overlap::No;
  if (shares) {
    const Tensor result = reduce(op, operands, dim, keepdim, dtype, params);
    prepare_out(op.name, out, spec);
    copy_into(out, result);
    return out;
  }
  prepare_out(op.name, out, spec);
  reduce_into(op, out, operands, dim, dtype, params);
  return out;
}

}  // namespace flambeau
