// Pointwise operators on whole tensors: ranks are aligned behind the batch dimension, and dtypes
// are promoted as if it were not there.
#include <algorithm>

#include "aten/autograd/operators.h"
#include "aten/transforms/batching_rules.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {

namespace {

struct Operand {
  Tensor* tensor;
  int64_t rank;  // without the batch dimension
  bool is_batched;
  bool is_cast;  // takes part in promotion and may be converted
};

// Bool, integer, real, complex.
int category(ScalarType t) {
  if (is_complex_type(t)) return 3;
  if (is_floating_type(t)) return 2;
  return t == ScalarType::Bool ? 0 : 1;
}

std::vector<Operand> operands_of(BatchedCall& call, const BatchRule& rule) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < rule.arguments.size(); ++i) {
    const BatchRole role = rule.arguments[i].role;
    if (role != BatchRole::Operand && role != BatchRole::Mask) continue;
    const bool is_cast = role == BatchRole::Operand && !call.traits.arguments[i].is_mutable;
    each_tensor(call.stack[i], [&](Tensor& t) {
      const Wrapper* wrapper = call.batched(t);
      const int64_t rank = wrapper ? wrapper->value.dim() - 1 : t.dim();
      operands.push_back({&t, rank, wrapper != nullptr, is_cast});
    });
  }
  return operands;
}

// The common dtype of the operands whose entries have dimensions.
ScalarType dimensioned_type(const std::vector<Operand>& operands) {
  ScalarType common = ScalarType::Undefined;
  for (const Operand& operand : operands) {
    if (operand.rank == 0 || !operand.is_cast) continue;
    const ScalarType own = operand.tensor->dtype();
    common = common == ScalarType::Undefined ? own : promote_types(common, own);
  }
  return common;
}

// Entries without dimensions do not take part in promotion beside others of their category, but
// would have one with the batch as a dimension: they take the common dtype first.
Tensor without_say(const Tensor& t, ScalarType common) {
  if (common == ScalarType::Undefined || t.dtype() == ScalarType::Bool) return t;
  const int own = category(t.dtype());
  if (own == 2 && category(common) == 3)
    return autograd::operators::to_dtype(t, to_real_type(common));
  if (own != category(common) || t.dtype() == common) return t;
  return autograd::operators::to_dtype(t, common);
}

Tensor aligned(const BatchedCall& call, const Operand& operand, int64_t rank, ScalarType common) {
  const Tensor& t = *operand.tensor;
  if (!operand.is_batched) {
    // Beside batched entries without dimensions it must be of their class.
    const bool lone = rank == 0 && !t.impl()->is_wrapped_number();
    return lone ? ops::unsqueeze::call(t, 0) : t;
  }
  const Tensor front = padded(to_front(*call.batched(t)), rank);
  return operand.rank == 0 && operand.is_cast ? without_say(front, common) : front;
}

}  // namespace

void run_pointwise(BatchedCall& call, const BatchRule& rule) {
  require_batched_targets(call);
  const Targets targets(call);
  const std::vector<Operand> operands = operands_of(call, rule);
  int64_t rank = 0;
  for (const Operand& operand : operands) rank = std::max(rank, operand.rank);
  {
    const BelowLayer below;
    const ScalarType common = dimensioned_type(operands);
    for (const Operand& operand : operands) {
      *operand.tensor = aligned(call, operand, rank, common);
    }
    call_operator(call.op, call.stack);
  }
  targets.refresh_all();
  for (size_t i = 0; i < call.stack.size(); ++i) {
    const ResultTraits traits = call.traits.results[i];
    if (traits.is_self) {
      call.stack[i] = IValue(targets.finished(static_cast<size_t>(traits.alias)));
    } else {
      each_tensor(call.stack[i], [&](Tensor& t) { t = make_batched(t, 0, call.layer.level); });
    }
  }
}

}  // namespace flambeau::transforms
