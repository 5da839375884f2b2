// Sizes, parts and memory of a fused group for one geometry.
#include "aten/cpu/fused_plan.h"

#include <algorithm>
#include <utility>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/cpu/copy.h"
#include "aten/cpu/fused_part.h"
#include "aten/cpu/loop_choice.h"
#include "aten/cpu/pointwise.h"

namespace flambeau {
namespace {

Tensor shape_of(const Tensor& t) {
  Tensor shape = tensor_without_memory({t.sizes(), t.strides(), t.dtype(), t.device()});
  shape.impl()->set_wrapped_number(t.impl()->is_wrapped_number());
  return shape;
}

// Smaller for every size that broadcasts to another one.
std::pair<int64_t, int64_t> rank_of(const Tensor& t) {
  const IntArrayRef sizes = t.sizes();
  const auto ones = std::count(sizes.begin(), sizes.end(), 1);
  return {t.dim(), t.dim() - ones};
}

// Whether a group can write its result straight to a given tensor.
bool takes_result(const Tensor& given, const Tensor& result, ArrayRef<const Tensor*> inputs) {
  for (int64_t d = 0; d < given.dim(); ++d) {
    if (given.size(d) > 1 && given.stride(d) != result.stride(d)) return false;
  }
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Tensor* input) { return overlap_of(given, *input) == Overlap::No; });
}

}  // namespace

Tensor tensor_without_memory(const OutSpec& spec) {
  auto impl = make_intrusive<TensorImpl>(make_intrusive<StorageImpl>(size_t{0}, spec.device),
                                         spec.dtype, spec.device);
  if (spec.strides.empty()) {
    impl->set_contiguous_sizes(spec.sizes);
  } else {
    impl->set_geometry(spec.sizes, spec.strides, 0);
  }
  return Tensor(std::move(impl));
}

FusedPlan::FusedPlan(const FusedGroup& group, ArrayRef<const Tensor*> inputs)
    : default_dtype_(default_dtype()), outputs_(group.outputs()) {
  infer_shapes(group, inputs);
  const std::vector<std::vector<int32_t>> parts = split_by_size();
  is_in_memory_.assign(results_.size(), false);
  for (const int32_t s : outputs_) is_in_memory_[static_cast<size_t>(s)] = true;
  for (size_t s = 0; s < results_.size(); ++s) {
    for (const FusedOperand& o : group.steps()[s].operands) {
      if (o.kind != FusedOperand::Kind::Step) continue;
      const auto from = static_cast<size_t>(o.index);
      if (part_of_[from] != part_of_[s]) is_in_memory_[from] = true;
    }
  }
  for (const std::vector<int32_t>& steps : parts)
    parts_.push_back(FusedPartMaker(*this, group, steps).make());
  for (FusedPart& part : parts_) {
    const FusedGroup::Kernel found = group.kernel_for(part.text);
    part.kernel = found.kernel;
    if (found.kernel) part.trial = std::make_shared<FusedTrial>(found.is_measured);
  }
}

void FusedPlan::infer_shapes(const FusedGroup& group, ArrayRef<const Tensor*> inputs) {
  for (const Tensor* t : inputs) inputs_.push_back(shape_of(*t));
  results_.reserve(group.steps().size());
  for (const FusedStep& step : group.steps()) {
    std::vector<Operand> operands;
    std::vector<Tensor> constants;
    constants.reserve(step.operands.size());
    for (const FusedOperand& o : step.operands) {
      if (o.kind == FusedOperand::Kind::Number) {
        operands.emplace_back(o.number);
      } else if (o.kind == FusedOperand::Kind::Constant) {
        constants.push_back(shape_of(o.constant));
        operands.emplace_back(constants.back());
      } else {
        const bool is_input = o.kind == FusedOperand::Kind::Input;
        operands.emplace_back((is_input ? inputs_ : results_)[static_cast<size_t>(o.index)]);
      }
    }
    types_.push_back(pointwise_dtypes(*step.op, operands));
    const OutSpec spec = result_spec(*step.op, operands);
    is_row_major_.push_back(spec.strides.empty());
    results_.push_back(tensor_without_memory(spec));
  }
}

std::vector<std::vector<int32_t>> FusedPlan::split_by_size() {
  std::vector<std::vector<int32_t>> parts;
  for (size_t s = 0; s < results_.size(); ++s) {
    const auto same = [&](const std::vector<int32_t>& part) {
      return results_[static_cast<size_t>(part[0])].sizes() == results_[s].sizes();
    };
    auto part = std::find_if(parts.begin(), parts.end(), same);
    if (part == parts.end()) part = parts.insert(parts.end(), std::vector<int32_t>());
    part->push_back(static_cast<int32_t>(s));
  }
  std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    return rank_of(results_[static_cast<size_t>(a[0])]) <
           rank_of(results_[static_cast<size_t>(b[0])]);
  });
  part_of_.resize(results_.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const int32_t s : parts[p]) part_of_[static_cast<size_t>(s)] = static_cast<int32_t>(p);
  }
  return parts;
}

bool FusedPlan::fits(ArrayRef<const Tensor*> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i]->sizes() == inputs_[i].sizes())) return false;
    if (!(inputs[i]->strides() == inputs_[i].strides())) return false;
  }
  return default_dtype() == default_dtype_;
}

std::vector<Tensor> FusedPlan::memory_for(ArrayRef<const Tensor*> inputs,
                                          ArrayRef<const Tensor*> given) const {
  std::vector<Tensor> results(results_.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const auto s = static_cast<size_t>(outputs_[i]);
    if (given[i] && takes_result(*given[i], results_[s], inputs)) results[s] = *given[i];
  }
  for (size_t s = 0; s < results.size(); ++s) {
    const Tensor& shape = results_[s];
    if (!is_in_memory_[s] || results[s].defined()) continue;
    results[s] = is_row_major_[s] ? empty_tensor(shape.sizes(), shape.dtype())
                                  : empty_strided_tensor(shape.sizes(), shape.strides(),
                                                         shape.dtype(), DeviceType::CPU);
  }
  return results;
}

std::vector<Tensor> FusedPlan::run(ArrayRef<const Tensor*> inputs,
                                   ArrayRef<const Tensor*> given) const {
  std::vector<Tensor> results = memory_for(inputs, given);
  for (const FusedPart& part : parts_) {
    SmallVector<char*, 32> data;
    for (const FusedArray& array : part.arrays) {
      const auto i = static_cast<size_t>(array.index);
      const Tensor& t = array.source == FusedArray::Source::Input    ? *inputs[i]
                        : array.source == FusedArray::Source::Result ? results[i]
                                                                     : constants_[i];
      data.push_back(static_cast<char*>(t.data()));
    }
    if (!part.codes.empty()) check_loop_errors(run_fused_part(part, slots_.data(), data.data()));
  }
  std::vector<Tensor> outputs;
  outputs.reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& result = results[static_cast<size_t>(outputs_[i])];
    const bool is_given = !given.empty() && given[i];
    outputs.push_back(is_given ? *given[i] : result);
    if (is_given && !result.is_same(*given[i])) copy_into(*given[i], result);
  }
  return outputs;
}

}  // namespace flambeau
