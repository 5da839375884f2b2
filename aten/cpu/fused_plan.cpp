#include "aten/cpu/fused_plan.h"

#include <algorithm>
#include <cstring>

namespace flambeau {

FusedPlan::Source FusedPlan::source_of(ScalarType own, ScalarType loop, Where where) const {
  const auto bytes = static_cast<int64_t>(element_size(own));
  if (own == loop) return {where, nullptr, bytes, bytes};
  return {where, cast_loop(own, loop), bytes, static_cast<int64_t>(element_size(loop))};
}

int FusedPlan::number_of(const Scalar& number, ScalarType dtype) {
  Number made{{}, static_cast<int64_t>(element_size(dtype))};
  number.store(dtype, made.value);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].bytes == made.bytes && !std::memcmp(numbers[i].value, made.value, 16))
      return static_cast<int>(i);
  }
  numbers.push_back(made);
  return static_cast<int>(numbers.size() - 1);
}

namespace {

// The last step that reads each value.
std::vector<size_t> last_readers(size_t inputs, const std::vector<FusedStep>& steps) {
  std::vector<size_t> last(inputs + steps.size(), 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    last[inputs + s] = s;
    for (const FusedOperand& o : steps[s].operands) {
      if (o.value >= 0) last[static_cast<size_t>(o.value)] = s;
    }
  }
  return last;
}

}  // namespace

FusedPlan::Step FusedPlan::step_of(const FusedStep& from, const std::vector<ScalarType>& dtypes,
                                   const std::vector<Where>& where, size_t value) {
  const ScalarType compute = from.is_stored ? from.types.result : from.types.compute;
  const ScalarType written = from.is_stored ? from.types.result : from.types.loop_out;
  Step step{pointwise_loop(*from.op, compute), {}, {}, std::vector<char>(16 * from.params.size())};
  for (const FusedOperand& o : from.operands) {
    const auto v = static_cast<size_t>(o.value);
    step.operands.push_back(
        o.value >= 0 ? source_of(dtypes[v], compute, where[v])
                     : source_of(compute, compute, {Place::Number, number_of(o.number, compute)}));
  }
  step.result = source_of(dtypes[value], written, where[value]);
  if (step.result.cast) step.result.cast = cast_loop(written, dtypes[value]);
  store_params(from.op->name, from.params, from.types.compute, step.params.data());
  return step;
}

FusedPlan::FusedPlan(const std::vector<ScalarType>& inputs, const std::vector<FusedStep>& all,
                     const std::vector<int>& outputs) {
  std::vector<ScalarType> dtypes = inputs;
  std::vector<Where> where(inputs.size() + all.size());
  for (size_t i = 0; i < inputs.size(); ++i) where[i] = {Place::Input, static_cast<int>(i)};
  for (size_t o = 0; o < outputs.size(); ++o)
    where[static_cast<size_t>(outputs[o])] = {Place::Output, static_cast<int>(o)};
  for (const FusedStep& step : all) {
    dtypes.push_back(step.types.result);
    width = std::max(width, static_cast<int64_t>(element_size(step.types.compute)));
  }
  for (const ScalarType t : dtypes) width = std::max(width, static_cast<int64_t>(element_size(t)));
  const std::vector<size_t> last = last_readers(inputs.size(), all);
  std::vector<int> free;  // buffers
  for (size_t s = 0; s < all.size(); ++s) {
    const size_t value = inputs.size() + s;
    if (where[value].place == Place::Buffer) {
      if (free.empty()) free.push_back(num_buffers++);
      where[value].index = free.back();
      free.pop_back();
    }
    steps.push_back(step_of(all[s], dtypes, where, value));
    for (size_t v = inputs.size(); v <= value; ++v) {
      if (where[v].place == Place::Buffer && last[v] == s) free.push_back(where[v].index);
    }
  }
}

FusedBlocks::FusedBlocks(const FusedPlan& plan, int arrays, int64_t most)
    : arrays_(arrays),
      num_buffers_(plan.num_buffers),
      num_numbers_(static_cast<int>(plan.numbers.size())) {
  // An odd number of lines more: a store delays loads that lie a multiple of 4096 bytes apart.
  step_ = (most * plan.width + 63) / 64 * 64 + 192;
  const int blocks = arrays_ + num_buffers_ + num_numbers_ + kMaxOperands + 1;
  memory_ = inline_;
  if (const int64_t bytes = blocks * step_; bytes > kInline) {
    owned_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes) + 64);
    memory_ = owned_.get() + (64 - reinterpret_cast<uintptr_t>(owned_.get()) % 64) % 64;
  }
  for (int i = 0; i < num_numbers_; ++i) {
    const FusedPlan::Number& number = plan.numbers[static_cast<size_t>(i)];
    splat(number.value, number.bytes, most, at({FusedPlan::Place::Number, i}));
  }
}

char* FusedBlocks::at(FusedPlan::Where where) {
  switch (where.place) {
    case FusedPlan::Place::Input:
      return inputs[where.index];
    case FusedPlan::Place::Output:
      return outputs[where.index];
    case FusedPlan::Place::Buffer:
      return block(arrays_ + where.index);
    default:
      return block(arrays_ + num_buffers_ + where.index);
  }
}

uint32_t FusedBlocks::run(const FusedPlan::Step& step, int64_t n) {
  const int casts = arrays_ + num_buffers_ + num_numbers_;
  char* data[kMaxOperands + 1];
  char* const result = at(step.result.where);
  data[0] = step.result.cast ? block(casts) : result;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const FusedPlan::Source& from = step.operands[i];
    char* const value = at(from.where);
    data[i + 1] = value;
    if (!from.cast) continue;
    data[i + 1] = block(casts + 1 + static_cast<int>(i));
    from.cast(n, value, from.bytes, data[i + 1], from.loop_bytes);
  }
  const uint32_t errors = step.loop(n, data, step.params.data());
  if (step.result.cast)
    step.result.cast(n, data[0], step.result.loop_bytes, result, step.result.bytes);
  return errors;
}

}  // namespace flambeau
