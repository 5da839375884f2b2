// Recording of fused groups, and what a call of one checks.
#include "aten/cpu/fused.h"

#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/fused_plan.h"
#include "aten/cpu/pointwise.h"

namespace flambeau {
namespace {

// What the loops can read: memory of the CPU whose elements mean what they say.
bool is_plain(const Tensor& t) {
  constexpr DispatchKeySet kHarmless =
      DispatchKeySet(DispatchKey::CPU) | DispatchKeySet(DispatchKey::Autograd) |
      DispatchKeySet(DispatchKey::Autocast) | DispatchKeySet(DispatchKey::Python);
  return t.defined() && t.is_cpu() && !t.impl()->wrapper() && (t.keys() - kHarmless).empty();
}

int32_t index_in(const std::vector<Tensor>& tensors, const Tensor& t) {
  const auto same = [&](const Tensor& other) { return other.is_same(t); };
  const auto at = std::find_if(tensors.begin(), tensors.end(), same);
  return at == tensors.end() ? -1 : static_cast<int32_t>(at - tensors.begin());
}

bool equal(const PointwiseDTypes& a, const PointwiseDTypes& b) {
  return a.common == b.common && a.compute == b.compute && a.loop_out == b.loop_out &&
         a.result == b.result;
}

}  // namespace

// --- recording -----------------------------------------------------------------------------------

FusedRecorder::FusedRecorder(std::vector<Tensor> inputs) : inputs_(std::move(inputs)) {
  for (const Tensor& t : inputs_) {
    check(is_plain(t), "_FusedRecorder: expected dense inputs on the CPU, got ", t);
  }
}

void FusedRecorder::start() {
  check(!pointwise_recorder,
        "_FusedRecorder: expected a thread without a recorder, got one that records already");
  pointwise_recorder = this;
}

void FusedRecorder::stop() {
  check(pointwise_recorder == this,
        "_FusedRecorder: expected __exit__ in the thread of __enter__, got another thread");
  pointwise_recorder = nullptr;
}

size_t FusedRecorder::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_.size();
}

FusedOperand FusedRecorder::operand_of(const PointwiseOp& op, const Operand& operand) const {
  using Kind = FusedOperand::Kind;
  if (!operand.tensor) return {.kind = Kind::Number, .number = *operand.scalar};
  const Tensor& t = *operand.tensor;
  if (const int32_t i = index_in(results_, t); i >= 0) return {.kind = Kind::Step, .index = i};
  if (const int32_t i = index_in(inputs_, t); i >= 0) return {.kind = Kind::Input, .index = i};
  if (t.impl()->is_wrapped_number() && is_plain(t)) return {.kind = Kind::Constant, .constant = t};
  fail(ErrorKind::Runtime, op.name,
       ": expected inputs of the fused group and results of its steps, got another tensor, ", t);
}

Tensor FusedRecorder::record(const PointwiseOp& op, ArrayRef<Operand> operands,
                             ArrayRef<Scalar> params) {
  const std::lock_guard lock(mutex_);
  FusedStep step{&op, {}, params.vec(), pointwise_dtypes(op, operands)};
  for (const Operand& operand : operands) step.operands.push_back(operand_of(op, operand));
  alignas(16) char slots[16 * kMaxParams];
  store_params(op.name, params, step.types.compute, slots);
  Tensor result = tensor_without_memory(result_spec(op, operands));
  steps_.push_back(std::move(step));
  results_.push_back(result);
  return result;
}

std::shared_ptr<const FusedGroup> FusedRecorder::group(ArrayRef<const Tensor*> outputs) const {
  const std::lock_guard lock(mutex_);
  std::vector<FusedInput> inputs;
  for (const Tensor& t : inputs_) inputs.push_back({t.dtype(), t.impl()->is_wrapped_number()});
  std::vector<int32_t> steps;
  for (const Tensor* t : outputs) {
    steps.push_back(index_in(results_, *t));
    check(steps.back() >= 0, "_FusedRecorder.group: expected results of recorded steps, got ", *t);
  }
  return std::make_shared<FusedGroup>(std::move(inputs), steps_, std::move(steps));
}

// --- groups --------------------------------------------------------------------------------------

FusedGroup::FusedGroup(std::vector<FusedInput> inputs, std::vector<FusedStep> steps,
                       std::vector<int32_t> outputs)
    : inputs_(std::move(inputs)), steps_(std::move(steps)), outputs_(std::move(outputs)) {
  drop_unused_steps();
}

void FusedGroup::drop_unused_steps() {
  std::vector<bool> used(steps_.size(), false);
  for (const int32_t s : outputs_) used[static_cast<size_t>(s)] = true;
  for (size_t s = steps_.size(); s-- > 0;) {
    if (!used[s]) continue;
    for (const FusedOperand& o : steps_[s].operands) {
      if (o.kind == FusedOperand::Kind::Step) used[static_cast<size_t>(o.index)] = true;
    }
  }
  std::vector<int32_t> places(steps_.size(), -1);
  std::vector<FusedStep> kept;
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!used[s]) continue;
    places[s] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(steps_[s]));
    for (FusedOperand& o : kept.back().operands) {
      if (o.kind == FusedOperand::Kind::Step) o.index = places[static_cast<size_t>(o.index)];
    }
  }
  for (int32_t& s : outputs_) s = places[static_cast<size_t>(s)];
  steps_ = std::move(kept);
}

void FusedGroup::check_inputs(ArrayRef<const Tensor*> inputs) const {
  check(!pointwise_recorder,
        "_FusedGroup: expected a thread without a recorder, got one that records");
  check_type(inputs.size() == inputs_.size(), "_FusedGroup: expected ", inputs_.size(),
             " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    check(is_plain(t), "_FusedGroup: expected dense inputs on the CPU, got ", t);
    check(t.dtype() == inputs_[i].dtype, "_FusedGroup: expected input ", i, " of ",
          inputs_[i].dtype, ", got ", t);
    check(t.impl()->is_wrapped_number() == inputs_[i].is_number, "_FusedGroup: expected input ", i,
          inputs_[i].is_number ? " to be a number, got a tensor" : " to be a tensor, got a number");
  }
}

Tensor FusedGroup::run_one_step(ArrayRef<const Tensor*> inputs) const {
  const FusedStep& step = steps_[0];
  std::vector<Operand> operands;
  operands.reserve(step.operands.size());
  for (const FusedOperand& o : step.operands) {
    switch (o.kind) {
      case FusedOperand::Kind::Number:
        operands.emplace_back(o.number);
        break;
      case FusedOperand::Kind::Constant:
        operands.emplace_back(o.constant);
        break;
      default:
        operands.emplace_back(*inputs[static_cast<size_t>(o.index)]);
    }
  }
  return pointwise(*step.op, operands, step.params);
}

std::shared_ptr<const FusedPlan> FusedGroup::plan_for(ArrayRef<const Tensor*> inputs) const {
  size_t known = 0;
  {
    const std::lock_guard lock(mutex_);
    if (plan_ && plan_->fits(inputs)) return plan_;
    known = kernels_.size();
  }
  auto made = std::make_shared<const FusedPlan>(*this, inputs);
  for (size_t s = 0; s < steps_.size(); ++s) {
    check(equal(made->types(s), steps_[s].types), "_FusedGroup: expected step ", s, " (",
          steps_[s].op->name, ") to give ", steps_[s].types.result,
          " as it was recorded, but dtypes promote to ", made->types(s).common,
          " for inputs of these sizes");
  }
  const std::lock_guard lock(mutex_);
  if (kernels_.size() == known) plan_ = made;  // else a kernel came meanwhile
  return made;
}

std::vector<std::string> FusedGroup::texts(ArrayRef<const Tensor*> inputs) const {
  check_inputs(inputs);
  std::vector<std::string> found;
  if (steps_.size() == 1) return found;  // runs as a single call
  for (const FusedPart& part : plan_for(inputs)->parts()) {
    if (!part.text.empty()) found.push_back(part.text);
  }
  return found;
}

std::pair<std::vector<FusedGroup::Part>, std::string> FusedGroup::parts(
    ArrayRef<const Tensor*> inputs) const {
  check_inputs(inputs);
  const std::shared_ptr<const FusedPlan> plan = plan_for(inputs);
  std::vector<Part> found;
  for (const FusedPart& part : plan->parts()) {
    Part& made = found.emplace_back();
    made.text = part.text;
    for (const FusedArray& array : part.arrays) {
      const bool is_constant = array.source == FusedArray::Source::Constant;
      made.inputs.push_back(array.source == FusedArray::Source::Input ? array.index : -1);
      made.constants.push_back(is_constant ? plan->constant(static_cast<size_t>(array.index))
                                           : Tensor());
    }
  }
  return {std::move(found), plan->slot_bytes()};
}

void FusedGroup::install(const std::string& text, Kernel kernel) const {
  const std::lock_guard lock(mutex_);
  kernels_[text] = kernel;
  plan_ = nullptr;
}

FusedGroup::Kernel FusedGroup::kernel_for(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(text);
  return found == kernels_.end() ? Kernel() : found->second;
}

std::vector<std::string> FusedGroup::choices() const {
  std::shared_ptr<const FusedPlan> plan;
  {
    const std::lock_guard lock(mutex_);
    plan = plan_;
  }
  std::vector<std::string> found;
  if (!plan) return found;
  for (const FusedPart& part : plan->parts())
    found.emplace_back(part.trial ? part.trial->state() : "codes");
  return found;
}

std::vector<Tensor> FusedGroup::run(ArrayRef<const Tensor*> inputs) const {
  check_inputs(inputs);
  if (steps_.size() != 1) return plan_for(inputs)->run(inputs);
  return std::vector<Tensor>(outputs_.size(), run_one_step(inputs));
}

void FusedGroup::check_given(ArrayRef<const Tensor*> given, const FusedPlan& plan) const {
  check_type(given.size() == outputs_.size(), "_FusedGroup.into: expected ", outputs_.size(),
             " outputs, got ", given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    const Tensor& t = *given[i];
    const Tensor& result = plan.result(static_cast<size_t>(outputs_[i]));
    check(is_plain(t) && t.sizes() == result.sizes() && t.dtype() == result.dtype(),
          "_FusedGroup.into: expected output ", i, " on the CPU like ", result, ", got ", t);
    check(!has_internal_overlap(t), "_FusedGroup.into: expected output ", i,
          " whose elements do not share memory, got ", t);
    for (size_t j = 0; j < i; ++j) {
      check(!given[j] || overlap_of(t, *given[j]) == Overlap::No,
            "_FusedGroup.into: expected outputs with memory of their own, got outputs ", j, " and ",
            i, " that overlap");
    }
  }
}

std::vector<Tensor> FusedGroup::run_into(ArrayRef<const Tensor*> given,
                                         ArrayRef<const Tensor*> inputs) const {
  check_inputs(inputs);
  const std::shared_ptr<const FusedPlan> plan = plan_for(inputs);
  check_given(given, *plan);
  for (const Tensor* t : given) {
    if (!t) continue;
    t->storage()->make_writable();
    t->impl()->bump_version();
  }
  return plan->run(inputs, given);
}

namespace {

std::string text_of_operand(const FusedOperand& o) {
  switch (o.kind) {
    case FusedOperand::Kind::Input:
      return text_of("i", o.index);
    case FusedOperand::Kind::Step:
      return text_of("s", o.index);
    case FusedOperand::Kind::Number:
      return text_of(o.number);
    default:
      return text_of(item_of(o.constant));
  }
}

}  // namespace

std::string FusedGroup::describe() const {
  std::string text;
  for (size_t s = 0; s < steps_.size(); ++s) {
    std::string arguments;
    for (const FusedOperand& o : steps_[s].operands)
      arguments += (arguments.empty() ? "" : ", ") + text_of_operand(o);
    for (const Scalar& p : steps_[s].params) arguments += text_of("; ", p);
    text += text_of("s", s, " = ", steps_[s].op->name, "(", arguments,
                    "): ", steps_[s].types.result, "\n");
  }
  return text;
}

}  // namespace flambeau
