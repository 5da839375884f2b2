// The pointwise driver. Two ways in: operands that are row-major, of one size and of the loop's own
// dtype go straight to the loop; everything else is cut into L1-sized tiles, whose operands are
// gathered (cast, broadcast, transposed) into buffers only where the loop cannot read them in
// place.
#include "aten/cpu/pointwise.h"

#include <algorithm>
#include <atomic>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/loop_choice.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/pointwise_recording.h"
#include "aten/cpu/scratch.h"

namespace flambeau {

thread_local constinit PointwiseRecorder* pointwise_recorder = nullptr;

namespace {

struct Params {
  alignas(16) char slots[16 * kMaxParams];
};

// --- the uniform case ------------------------------------------------------------------------

// Whether the number's category does not raise the dtype of a tensor operand.
bool keeps_dtype(const Scalar& number, ScalarType dtype) {
  switch (number.tag()) {
    case Scalar::Tag::Bool:
      return true;
    case Scalar::Tag::Int:
    case Scalar::Tag::UInt:
      return dtype != ScalarType::Bool;
    case Scalar::Tag::Double:
      return is_floating_type(dtype) || is_complex_type(dtype);
    default:
      return is_complex_type(dtype);
  }
}

constexpr int kMaxNumbers = 2;  // among the operands of the uniform case

struct Uniform {
  const Tensor* first = nullptr;  // null: not the uniform case
  const Scalar* numbers[kMaxNumbers];
  int count = 0;  // of numbers
  PointwiseDTypes types;
  ScalarType stored;  // of the loop's operands
};

bool matches(const Tensor& t, const Tensor& first) {
  return t.dtype() == first.dtype() && t.is_contiguous() && t.is_cpu() &&
         t.sizes() == first.sizes();
}

// All tensors row-major on the CPU with one size and one dtype, which is the loop's; at most
// kMaxNumbers numbers. Fills its argument in place: returning the struct costs a store-forwarding
// stall per call.
bool uniform_case(const PointwiseOp& op, ArrayRef<Operand> operands, Uniform& u) {
  if (op.masks) return false;
  for (const Operand& o : operands) {
    if (!o.tensor) {
      if (u.count == kMaxNumbers) return false;
      u.numbers[u.count++] = o.scalar;
    } else if (!u.first) {
      // The tensor that holds a number is wider than what the number counts as.
      const bool number = o.tensor->impl()->is_wrapped_number();
      if (number || !o.tensor->is_contiguous() || !o.tensor->is_cpu()) return false;
      u.first = o.tensor;
    } else if (!matches(*o.tensor, *u.first)) {
      return false;
    }
  }
  if (!u.first) return false;
  for (int i = 0; i < u.count; ++i) {
    if (!keeps_dtype(*u.numbers[i], u.first->dtype())) return false;
  }
  u.types = dtypes_by_rule(op.name, op.rule, op.allowed, u.first->dtype());
  u.stored = u.first->dtype();
  if (u.types.compute == u.stored) return true;
  if (!has_stored_loop(op, u.stored)) return false;
  for (int i = 0; i < u.count; ++i) {
    if (!is_exact_bfloat16(*u.numbers[i])) return false;
  }
  return true;
}

struct DenseRun {
  // Leaves the arrays unset: clearing them costs more than a small operator.
  DenseRun(PointwiseLoop l, const void* p, int n) : loop(l), params(p), arrays(n) {}

  PointwiseLoop loop;
  const void* params;
  int arrays;
  char* data[kMaxOperands + 1];
  int64_t bytes[kMaxOperands + 1];  // per element
  uint32_t numbers = 0;  // bit a: array a is a splatted number, of kBlock elements at most

  uint32_t range(int64_t begin, int64_t end) const {
    if (!numbers && begin == 0) return loop(end, data, params);
    char* at[kMaxOperands + 1];
    if (!numbers) {
      for (int a = 0; a < arrays; ++a) at[a] = data[a] + begin * bytes[a];
      return loop(end - begin, at, params);
    }
    uint32_t errors = 0;
    for (int64_t i = begin; i < end; i += kBlock) {
      for (int a = 0; a < arrays; ++a) at[a] = numbers >> a & 1 ? data[a] : data[a] + i * bytes[a];
      errors |= loop(end - i < kBlock ? end - i : kBlock, at, params);
    }
    return errors;
  }
};

uint32_t run_parallel(const DenseRun& run, int64_t n) {
  int64_t bytes = 0;
  for (int a = 0; a < run.arrays; ++a) bytes += run.bytes[a];
  std::atomic<uint32_t> errors{0};
  parallel_for(0, n, bytes / 4 + 1, [&](int64_t begin, int64_t end) {
    errors.fetch_or(run.range(begin, end), std::memory_order_relaxed);
  });
  return errors.load(std::memory_order_relaxed);
}

constexpr int64_t kSmall = 4096;  // elements that never repay a parallel region

uint32_t run_dense(const DenseRun& run, int64_t n) {
  return n <= kSmall ? run.range(0, n) : run_parallel(run, n);
}

// Fills a block with each number among the operands first. A function of its own, so that calls
// without numbers have a small frame.
[[gnu::noinline]] uint32_t run_with_numbers(DenseRun& run, ArrayRef<Operand> operands, int64_t n,
                                            ScalarType stored) {
  const int64_t most = n < kBlock ? n : kBlock;
  Scratch<8192> splatted;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].tensor) continue;
    const int64_t width = run.bytes[i + 1];
    char* const buffer = splatted.take(most * width);
    operands[i].scalar->store(stored, buffer);
    splat(buffer, width, most, buffer);
    run.numbers |= 1u << (i + 1);
    run.data[i + 1] = buffer;
  }
  return run_dense(run, n);
}

void run_uniform(const PointwiseOp& op, const Uniform& u, const Tensor& out,
                 ArrayRef<Operand> operands, ArrayRef<Scalar> params) {
  Params values;
  if (!params.empty()) store_params(op.name, params, u.types.compute, values.slots);
  const int64_t n = out.numel();
  DenseRun run(loop_of(op, u.stored), values.slots, static_cast<int>(operands.size()) + 1);
  const int64_t width = static_cast<int64_t>(element_size(u.stored));
  run.data[0] = static_cast<char*>(out.data());
  run.bytes[0] = static_cast<int64_t>(element_size(out.dtype()));
  for (size_t i = 0; i < operands.size(); ++i) {
    run.bytes[i + 1] = width;
    if (operands[i].tensor) run.data[i + 1] = static_cast<char*>(operands[i].tensor->data());
  }
  if (n == 0) return;
  check_loop_errors(u.count ? run_with_numbers(run, operands, n, u.stored) : run_dense(run, n));
}

// --- the general case ------------------------------------------------------------------------

class StridedRun {
 public:
  // `types`: those of the loop, which takes params of `param_type`.
  StridedRun(const PointwiseOp& op, const PointwiseDTypes& types, ScalarType param_type,
             const Tensor& out, ArrayRef<Operand> operands, ArrayRef<Scalar> params)
      : loop_(loop_of(op, types.compute)) {
    store_params(op.name, params, param_type, params_.slots);
    nest_.set_sizes(out.sizes());
    add(out, cast_loop(types.loop_out, out.dtype()), types.loop_out);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].tensor) {
        add(*operands[i].tensor, cast_loop(operands[i].tensor->dtype(), types.compute),
            types.compute);
      } else {
        char* slot = numbers_.slots + 16 * i;
        operands[i].scalar->store(types.compute, slot);
        const int64_t width = static_cast<int64_t>(element_size(types.compute));
        sides_[nest_.arrays] = {cast_loop(types.compute, types.compute), width, width, true, false};
        nest_.add(slot, {}, {}, width);
      }
    }
    nest_.sort();
    nest_.coalesce();
    for (int a = 1; a < nest_.arrays; ++a) sides_[a].constant = nest_.is_constant(a);
  }

  uint32_t run() {
    const TileShape shape = tile_shape();
    const Tiles tiles(nest_, shape.columns, shape.rows);
    int64_t bytes = 0;
    for (int a = 0; a < nest_.arrays; ++a) bytes += sides_[a].own_bytes;
    const int64_t cost = shape.columns * shape.rows * (bytes + 8) / 4;
    std::atomic<uint32_t> errors{0};
    parallel_for(0, tiles.count(), cost, [&](int64_t begin, int64_t end) {
      errors.fetch_or(run_tiles(tiles, begin, end, shape), std::memory_order_relaxed);
    });
    return errors.load(std::memory_order_relaxed);
  }

 private:
  struct Side {
    CastLoop cast;
    int64_t own_bytes;
    int64_t loop_bytes;
    bool same_type;
    bool constant;
  };

  void add(const Tensor& t, CastLoop cast, ScalarType loop_type) {
    const int64_t own = static_cast<int64_t>(element_size(t.dtype()));
    sides_[nest_.arrays] = {cast, own, static_cast<int64_t>(element_size(loop_type)),
                            t.dtype() == loop_type, false};
    nest_.add(t);
  }

  bool reads_rows_in_place(int a) const {
    return sides_[a].same_type && nest_.strides[a][0] == sides_[a].own_bytes;
  }

  // Whole rows where every array allows it and they are long; else blocks that fit the buffers.
  TileShape tile_shape() const {
    bool in_place = nest_.sizes[0] >= 128 || nest_.ndim == 1;
    bool any_constant = false;
    for (int a = 0; a < nest_.arrays; ++a) {
      in_place &= reads_rows_in_place(a) || sides_[a].constant;
      any_constant |= sides_[a].constant;
    }
    if (in_place && !any_constant) return {std::min<int64_t>(nest_.sizes[0], 16 * kBlock), 1};
    if (in_place) return {std::min(nest_.sizes[0], kBlock), 1};
    return buffered_tile_shape(nest_);
  }

  bool fits_in_place(int a, const Tile& tile) const {
    return reads_rows_in_place(a) &&
           (tile.rows == 1 || nest_.strides[a][1] == tile.columns * sides_[a].own_bytes);
  }

  // Not of arrays that lie in place in every tile.
  bool needs_buffer(int a, TileShape shape) const {
    if (sides_[a].constant || !reads_rows_in_place(a)) return true;
    const bool is_gapless = shape.columns == nest_.sizes[0] &&
                            nest_.strides[a][1] == shape.columns * sides_[a].own_bytes;
    return shape.rows > 1 && !is_gapless;
  }

  TileSide side_of(int a, const Tile& tile) const {
    return {tile.data[a], nest_.strides[a][0], nest_.ndim > 1 ? nest_.strides[a][1] : 0,
            sides_[a].own_bytes, sides_[a].cast};
  }

  uint32_t run_tiles(const Tiles& tiles, int64_t begin, int64_t end, TileShape shape) const {
    Scratch<12288> scratch;
    char* buffers[kMaxOperands + 1];
    const int64_t most = shape.columns * shape.rows;
    for (int a = 0; a < nest_.arrays; ++a) {
      buffers[a] = needs_buffer(a, shape) ? scratch.take(most * sides_[a].loop_bytes) : nullptr;
      if (!sides_[a].constant || a == 0) continue;
      sides_[a].cast(1, nest_.data[a], 0, buffers[a], 0);
      splat(buffers[a], sides_[a].loop_bytes, most, buffers[a]);
    }
    uint32_t errors = 0;
    const char* gathered[kMaxOperands + 1] = {};  // by each buffer: a row of one element
    tiles.visit(begin, end, [&](const Tile& tile) {
      char* data[kMaxOperands + 1];
      for (int a = 1; a < nest_.arrays; ++a) {
        data[a] = buffers[a];
        if (sides_[a].constant || gathered[a] == tile.data[a]) continue;
        if (fits_in_place(a, tile)) {
          data[a] = tile.data[a];
          continue;
        }
        // The next tile of a long row may be the same element, as one number for each channel is.
        const bool repeats = shape.rows == 1 && nest_.strides[a][0] == 0;
        gather(side_of(a, tile), repeats ? shape.columns : tile.columns, tile.rows, buffers[a],
               sides_[a].loop_bytes);
        if (repeats) gathered[a] = tile.data[a];
      }
      const bool writes_in_place = fits_in_place(0, tile);
      data[0] = writes_in_place ? tile.data[0] : buffers[0];
      errors |= loop_(tile.count(), data, params_.slots);
      if (!writes_in_place)
        scatter(buffers[0], sides_[0].loop_bytes, tile.columns, tile.rows, side_of(0, tile));
    });
    return errors;
  }

  PointwiseLoop loop_;
  Params params_;
  Params numbers_;
  StridedLoop nest_;
  Side sides_[kMaxOperands + 1];
};

// Whether the result and all operands are of one dtype that has a loop over stored elements.
bool runs_as_stored(const PointwiseOp& op, ScalarType result, ArrayRef<Operand> operands) {
  if (!has_stored_loop(op, result)) return false;
  return std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
    return o.tensor ? o.tensor->dtype() == result : is_exact_bfloat16(*o.scalar);
  });
}

void run_strided(const PointwiseOp& op, const Tensor& out, ArrayRef<Operand> operands,
                 ArrayRef<Scalar> params) {
  PointwiseDTypes types = pointwise_dtypes(op, operands);
  const ScalarType param_type = types.compute;
  if (out.numel() == 0) {
    Params unused;
    store_params(op.name, params, types.compute, unused.slots);
    return;
  }
  if (runs_as_stored(op, out.dtype(), operands)) types.compute = types.loop_out = out.dtype();
  StridedRun run(op, types, param_type, out, operands, params);
  check_loop_errors(run.run());
}

// Operands that overlap `out` out of step are read from a copy.
void run_over(const PointwiseOp& op, const Tensor& out, ArrayRef<Operand> operands,
              ArrayRef<Scalar> params) {
  Tensor copies[kMaxOperands];
  SmallVector<const Tensor*, kMaxOperands> tensors(operands.size(), nullptr);
  bool copied = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    tensors[i] = operands[i].tensor;
    if (!operands[i].tensor) continue;
    const Overlap overlap = overlap_of(out, *operands[i].tensor);
    check(overlap != Overlap::Partial, op.name, ": ", kReadAndWritten);
    if (overlap != Overlap::TooHard) continue;
    copies[i] = empty_tensor(operands[i].tensor->sizes(), operands[i].tensor->dtype());
    copy_into(copies[i], *operands[i].tensor);
    tensors[i] = &copies[i];
    copied = true;
  }
  if (!copied) return run_strided(op, out, operands, params);
  std::vector<Operand> own(operands.begin(), operands.end());
  for (size_t i = 0; i < own.size(); ++i) own[i].tensor = tensors[i];
  run_strided(op, out, own, params);
}

void refuse_recording(const PointwiseOp& op) {
  check(!pointwise_recorder, op.name,
        ": expected an operator with a new result in a fused group, got one that "
        "writes to an argument");
}

}  // namespace

OutSpec result_spec(const PointwiseOp& op, ArrayRef<Operand> operands) {
  if (Uniform u; uniform_case(op, operands, u))
    return {u.first->sizes(), {}, u.types.result, DeviceType::CPU};
  return pointwise_spec(op, operands);
}

Tensor pointwise(const PointwiseOp& op, ArrayRef<Operand> operands, ArrayRef<Scalar> params) {
  if (pointwise_recorder) [[unlikely]]
    return pointwise_recorder->record(op, operands, params);
  if (Uniform u; uniform_case(op, operands, u)) {
    Tensor out = empty_tensor(u.first->sizes(), u.types.result);
    run_uniform(op, u, out, operands, params);
    return out;
  }
  Tensor out = allocate(pointwise_spec(op, operands));
  run_strided(op, out, operands, params);
  return out;
}

Tensor& pointwise_inplace(const PointwiseOp& op, Tensor& self, ArrayRef<Operand> operands,
                          ArrayRef<Scalar> params) {
  refuse_recording(op);
  if (Uniform u; uniform_case(op, operands, u) && u.types.result == self.dtype() &&
                 self.sizes() == u.first->sizes()) {
    // Row-major tensors of one size over one storage coincide or are out of step.
    bool in_step = self.is_contiguous();
    for (const Operand& o : operands) {
      in_step &=
          !o.tensor || o.tensor->data() == self.data() || !(o.tensor->storage() == self.storage());
    }
    if (in_step) {
      run_uniform(op, u, self, operands, params);
      return self;
    }
  }
  check_inplace(op.name, self, pointwise_spec(op, operands));
  run_over(op, self, operands, params);
  return self;
}

Tensor& pointwise_out(const PointwiseOp& op, Tensor& out, ArrayRef<Operand> operands,
                      ArrayRef<Scalar> params) {
  refuse_recording(op);
  const OutSpec spec = pointwise_spec(op, operands);
  SmallVector<const Tensor*, kMaxOperands> inputs;
  for (const Operand& o : operands) {
    if (!o.tensor) continue;
    inputs.push_back(o.tensor);
    check(!o.tensor->is_same(out) || out.sizes() == spec.sizes.ref(), op.name, ": ",
          WrongOutputShape{out.sizes(), spec.sizes});
  }
  const ArrayRef<const Tensor*> tensors(inputs.data(), inputs.size());
  check_written_once(op.name, out);
  check_sharing(op.name, out, tensors, Sharing::Aligned);
  if (grows_under(out, spec, tensors)) {
    const Tensor result = pointwise(op, operands, params);
    prepare_out(op.name, out, spec);
    copy_into(out, result);
    return out;
  }
  prepare_out(op.name, out, spec);
  run_over(op, out, operands, params);
  return out;
}

}  // namespace flambeau
