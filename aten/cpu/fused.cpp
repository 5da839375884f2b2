// Recording of pointwise calls, and their execution as one loop over tiles that stay in the L1
// cache.
#include "aten/cpu/fused.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/fused_plan.h"
#include "aten/cpu/parallel.h"

namespace flambeau {

// --- recording ---------------------------------------------------------------------------------

FusedRecorder::FusedRecorder(std::vector<Tensor> inputs)
    : values_(std::move(inputs)), num_inputs_(values_.size()) {
  for (const Tensor& t : values_) check_fusable("fused group", t);
}

int FusedRecorder::find(const Tensor& t) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].is_same(t)) return static_cast<int>(i);
  }
  return -1;
}

Tensor FusedRecorder::record(const PointwiseOp& op, ArrayRef<Operand> operands,
                             ArrayRef<Scalar> params) {
  FusedStep step{&op, {}, {params.begin(), params.end()}, pointwise_dtypes(op, operands), false};
  for (const Operand& o : operands) {
    FusedOperand operand;
    if (!o.tensor) {
      operand.number = *o.scalar;
    } else if (o.tensor->impl()->is_wrapped_number()) {
      operand.number = item_of(*o.tensor);
    } else {
      operand.value = find(*o.tensor);
      check(operand.value >= 0, op.name,
            ": expected inputs and results of the fused group as operands, got another tensor");
    }
    step.operands.push_back(operand);
  }
  step.is_stored = runs_as_stored(op, step.types.result, operands);
  alignas(16) char slots[16 * kMaxParams];
  store_params(op.name, params, step.types.compute, slots);  // refuses what does not fit
  Tensor result = allocate(pointwise_spec(op, operands));
  values_.push_back(result);
  steps_.push_back(std::move(step));
  return result;
}

std::shared_ptr<FusedGroup> FusedRecorder::group(ArrayRef<Tensor> outputs) const {
  std::vector<ScalarType> inputs;
  for (size_t i = 0; i < num_inputs_; ++i) inputs.push_back(values_[i].dtype());
  std::vector<int> places;
  for (const Tensor& t : outputs) {
    const int place = find(t);
    check(place >= static_cast<int>(num_inputs_),
          "fused group: expected results of its steps as outputs, got another tensor");
    check(std::find(places.begin(), places.end(), place) == places.end(),
          "fused group: expected each output once, got a tensor twice");
    places.push_back(place);
  }
  return std::make_shared<FusedGroup>(std::move(inputs), steps_, std::move(places));
}

void check_fusable(const char* name, const Tensor& t) {
  check(t.defined(), name, ": expected tensors, got None");
  const bool is_plain = t.keys() - DispatchKey::Autograd == DispatchKeySet(DispatchKey::CPU);
  check(is_plain, name, ": expected tensors whose memory the CPU reads as it is, got ", t);
}

// --- geometry ----------------------------------------------------------------------------------

struct FusedGroup::Layout {
  std::vector<DimVector> sizes, strides;  // of the inputs: what the layout holds for
  DimVector space;                        // the size of every result
  std::vector<OutSpec> outputs;
  bool is_dense;  // all inputs and outputs are row-major and of one size

  bool holds_for(ArrayRef<Tensor> inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!(inputs[i].sizes() == sizes[i].ref()) || !(inputs[i].strides() == strides[i].ref()))
        return false;
    }
    return true;
  }
};

FusedGroup::FusedGroup(std::vector<ScalarType> inputs, std::vector<FusedStep> steps,
                       std::vector<int> outputs)
    : inputs_(std::move(inputs)), steps_(std::move(steps)), outputs_(std::move(outputs)) {
  check(!steps_.empty() && !outputs_.empty(),
        "fused group: expected a step and an output, got none");
  check(inputs_.size() + outputs_.size() <= kMaxFusedArrays, "fused group: expected at most ",
        kMaxFusedArrays, " inputs and outputs, got ", inputs_.size() + outputs_.size());
  plan_ = std::make_unique<const FusedPlan>(inputs_, steps_, outputs_);
}
FusedGroup::~FusedGroup() = default;

void FusedGroup::check_inputs(ArrayRef<Tensor> inputs) const {
  check(inputs.size() == inputs_.size(), "fused group: expected ", inputs_.size(), " inputs, got ",
        inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_fusable("fused group", inputs[i]);
    check(inputs[i].dtype() == inputs_[i], "fused group: expected input ", i, " to be ", inputs_[i],
          ", got ", inputs[i]);
  }
}

// What each step gives, found with tensors without memory.
std::vector<OutSpec> FusedGroup::specs(ArrayRef<Tensor> inputs) const {
  std::vector<Tensor> values;
  for (const Tensor& t : inputs)
    values.push_back(empty_strided_tensor(t.sizes(), t.strides(), t.dtype(), DeviceType::Meta));
  std::vector<OutSpec> found;
  for (const FusedStep& step : steps_) {
    std::vector<Operand> operands;
    for (const FusedOperand& o : step.operands) {
      if (o.value < 0) {
        operands.emplace_back(o.number);
      } else {
        operands.emplace_back(values[static_cast<size_t>(o.value)]);
      }
    }
    const PointwiseDTypes types = pointwise_dtypes(*step.op, operands);
    check(types.compute == step.types.compute && types.result == step.types.result, step.op->name,
          ": expected to compute in ", step.types.compute, " as recorded, got ", types.compute);
    found.push_back(pointwise_spec(*step.op, operands));
    found.back().device = DeviceType::CPU;
    OutSpec spec = found.back();
    spec.device = DeviceType::Meta;
    values.push_back(allocate(spec));
  }
  return found;
}

std::shared_ptr<const FusedGroup::Layout> FusedGroup::layout_of(ArrayRef<Tensor> inputs) const {
  {
    const std::lock_guard lock(mutex_);
    if (last_ && last_->holds_for(inputs)) return last_;
  }
  auto made = std::make_shared<Layout>();
  const std::vector<OutSpec> all = specs(inputs);
  made->space = all.front().sizes;
  for (size_t i = 0; i < all.size(); ++i) {
    check(all[i].sizes.ref() == made->space.ref(), steps_[i].op->name,
          ": expected a result of the fused group's size ", made->space.ref(), ", got ",
          all[i].sizes.ref());
  }
  made->is_dense = true;
  for (const Tensor& t : inputs) {
    made->sizes.emplace_back(t.sizes());
    made->strides.emplace_back(t.strides());
    made->is_dense &= t.is_contiguous() && t.sizes() == made->space.ref();
  }
  for (const int o : outputs_) {
    made->outputs.push_back(all[static_cast<size_t>(o) - inputs_.size()]);
    made->is_dense &= made->outputs.back().strides.empty();
  }
  const std::lock_guard lock(mutex_);
  return last_ = made;
}

// --- execution ---------------------------------------------------------------------------------

namespace {

class FusedRun {
 public:
  FusedRun(const FusedPlan& plan, ArrayRef<Tensor> inputs, ArrayRef<Tensor> outputs,
           IntArrayRef space, bool is_dense)
      : plan_(plan), num_inputs_(static_cast<int>(inputs.size())) {
    if (is_dense) {
      nest_.ndim = 1;
      nest_.sizes[0] = outputs[0].numel();
    } else {
      nest_.set_sizes(space);
    }
    // Outputs first: their order in memory is the order of the loop.
    for (const Tensor& t : outputs) add(t, is_dense);
    for (const Tensor& t : inputs) add(t, is_dense);
    num_outputs_ = static_cast<int>(outputs.size());
    if (is_dense) return;
    nest_.sort();
    nest_.coalesce();
    for (int a = num_outputs_; a < nest_.arrays; ++a) sides_[a].constant = nest_.is_constant(a);
  }

  uint32_t run() {
    const TileShape shape = buffered_tile_shape(nest_);
    const Tiles tiles(nest_, shape.columns, shape.rows);
    int64_t bytes = 0;
    for (int a = 0; a < nest_.arrays; ++a) bytes += sides_[a].bytes;
    const int64_t cost =
        shape.columns * shape.rows * (bytes / 4 + 2 * static_cast<int64_t>(plan_.steps.size()));
    std::atomic<uint32_t> errors{0};
    parallel_for(0, tiles.count(), cost, [&](int64_t begin, int64_t end) {
      errors.fetch_or(run_tiles(tiles, begin, end, shape.columns * shape.rows),
                      std::memory_order_relaxed);
    });
    return errors.load(std::memory_order_relaxed);
  }

 private:
  struct Side {
    CastLoop move;
    int64_t bytes;  // per element
    bool constant;
  };

  void add(const Tensor& t, bool is_dense) {
    const int64_t bytes = static_cast<int64_t>(element_size(t.dtype()));
    sides_[nest_.arrays] = {cast_loop(t.dtype(), t.dtype()), bytes, false};
    if (!is_dense) return nest_.add(t);
    nest_.strides[nest_.arrays][0] = bytes;
    nest_.data[nest_.arrays++] = static_cast<char*>(t.data());
  }

  bool fits_in_place(int a, const Tile& tile) const {
    return nest_.strides[a][0] == sides_[a].bytes &&
           (tile.rows == 1 || nest_.strides[a][1] == tile.columns * sides_[a].bytes);
  }
  TileSide side_of(int a, const Tile& tile) const {
    return {tile.data[a], nest_.strides[a][0], nest_.ndim > 1 ? nest_.strides[a][1] : 0,
            sides_[a].bytes, sides_[a].move};
  }

  uint32_t run_tiles(const Tiles& tiles, int64_t begin, int64_t end, int64_t most) const {
    FusedBlocks blocks(plan_, nest_.arrays, std::min(most, kBlock));
    for (int a = num_outputs_; a < nest_.arrays; ++a) {
      if (sides_[a].constant) splat(nest_.data[a], sides_[a].bytes, most, blocks.array(a));
    }
    uint32_t errors = 0;
    tiles.visit(begin, end, [&](const Tile& tile) {
      for (int a = num_outputs_; a < nest_.arrays; ++a)
        blocks.inputs[a - num_outputs_] = read(a, tile, blocks);
      for (int a = 0; a < num_outputs_; ++a)
        blocks.outputs[a] = fits_in_place(a, tile) ? tile.data[a] : blocks.array(a);
      for (const FusedPlan::Step& step : plan_.steps) errors |= blocks.run(step, tile.count());
      for (int a = 0; a < num_outputs_; ++a) {
        if (!fits_in_place(a, tile))
          scatter(blocks.array(a), sides_[a].bytes, tile.columns, tile.rows, side_of(a, tile));
      }
    });
    return errors;
  }

  char* read(int a, const Tile& tile, FusedBlocks& blocks) const {
    if (sides_[a].constant) return blocks.array(a);
    if (fits_in_place(a, tile)) return tile.data[a];
    gather(side_of(a, tile), tile.columns, tile.rows, blocks.array(a), sides_[a].bytes);
    return blocks.array(a);
  }

  const FusedPlan& plan_;
  int num_inputs_;
  int num_outputs_ = 0;
  StridedLoop nest_;
  Side sides_[kMaxArrays];
};

}  // namespace

std::vector<Tensor> FusedGroup::run(ArrayRef<Tensor> inputs) const {
  check_inputs(inputs);
  const std::shared_ptr<const Layout> layout = layout_of(inputs);
  std::vector<Tensor> outputs;
  outputs.reserve(outputs_.size());
  for (const OutSpec& spec : layout->outputs) outputs.push_back(allocate(spec));
  if (outputs[0].numel() == 0) return outputs;
  FusedRun run(*plan_, inputs, outputs, layout->space, layout->is_dense);
  check_loop_errors(run.run());
  return outputs;
}

// --- text --------------------------------------------------------------------------------------

std::string FusedGroup::describe() const {
  std::string text;
  const auto name = [&](int value) {
    const int inputs = static_cast<int>(inputs_.size());
    return value < inputs ? "in" + std::to_string(value) : "t" + std::to_string(value - inputs);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const FusedStep& step = steps_[i];
    text += name(static_cast<int>(inputs_.size() + i)) + " = " + step.op->name + "(";
    const char* separator = "";
    for (const FusedOperand& o : step.operands) {
      text += separator;
      if (o.value >= 0) {
        text += name(o.value);
      } else {
        append_text(text, o.number);
      }
      separator = ", ";
    }
    for (const Scalar& p : step.params) {
      text += separator;
      append_text(text, p);
      separator = ", ";
    }
    text += ") : ";
    text += name_of(step.types.result);
    text += "\n";
  }
  return text;
}

}  // namespace flambeau
