#include "aten/core/reduce_op.h"

#include "aten/core/messages.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"

namespace flambeau {

PointwiseDTypes reduce_dtypes(const ReduceOp& op, ArrayRef<const Tensor*> operands,
                              std::optional<ScalarType> dtype) {
  TypePromotion promotion;
  for (const Tensor* t : operands) promotion.add(*t);
  ScalarType common = dtype.value_or(promotion.result());
  const bool widens = op.integers_widen && !dtype && is_integral_type(common, true);
  if (widens) common = ScalarType::Int64;
  if (op.rule == DTypeRule::Promote && is_integral_type(common, true) &&
      !(op.allowed >> index_of(common) & 1) && op.allowed >> index_of(ScalarType::Float32) & 1 &&
      !widens) {
    fail(ErrorKind::Runtime, op.name,
         "(): could not infer output dtype: expected a floating or complex input, got ",
         pytorch_name_of(common));
  }
  PointwiseDTypes types = dtypes_by_rule(op.name, op.rule, op.allowed, common);
  // any and all answer uint8 for uint8.
  if (op.rule == DTypeRule::Logical && common == ScalarType::UInt8)
    types.result = ScalarType::UInt8;
  // Narrow integers that were asked for by name are still summed in 64 bits.
  if (op.integers_widen && is_integral_type(types.compute, true)) {
    types.compute = types.loop_out = ScalarType::Int64;
  }
  return types;
}

namespace {

void check_not_empty(const ReduceOp& op, IntArrayRef sizes, uint64_t mask, bool all) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 0 || !(mask >> d & 1)) continue;
    check(!all, op.name,
          "(): Expected reduction dim for an input without elements, got None as 'dim'");
    check_index(false, EmptyReduction{op.name, static_cast<int64_t>(d)});
  }
}

}  // namespace

bool reduces_all(const ReduceOp& op, const std::optional<IntArrayRef>& dim) {
  return !dim || (dim->empty() && op.no_dims_are_all);
}

OutSpec reduce_spec(const ReduceOp& op, ArrayRef<const Tensor*> operands,
                    const std::optional<IntArrayRef>& dim, bool keepdim,
                    std::optional<ScalarType> dtype, ArrayRef<Scalar>) {
  DimVector sizes(operands[0]->sizes());
  for (const Tensor* t : operands.slice(1, operands.size() - 1)) {
    sizes = broadcast_sizes(sizes, t->sizes());
    check(t->device() == operands[0]->device(),
          OtherDevice{op.name, operands[0]->device(), t->device()});
  }
  const bool all = reduces_all(op, dim);
  const uint64_t mask = all ? ~uint64_t{0} : dim_mask(*dim, static_cast<int64_t>(sizes.size()));
  OutSpec spec;
  spec.sizes = reduced_sizes(sizes, mask, keepdim);
  spec.dtype = reduce_dtypes(op, operands, dtype).result;
  spec.device = operands[0]->device();
  if (op.empty_is_error) check_not_empty(op, sizes, mask, all);
  return spec;
}

}  // namespace flambeau
