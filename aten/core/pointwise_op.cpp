#include "aten/core/pointwise_op.h"

#include <string>
#include <utility>
#include <vector>

#include "aten/core/broadcast.h"
#include "aten/core/memory_order.h"
#include "aten/core/messages.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"

namespace flambeau {
namespace {

// Tensors that all have the result's sizes decide the memory order together; see below.
bool same_dense_strides(ArrayRef<Operand> operands, IntArrayRef sizes, DimVector* strides) {
  const Tensor* first = nullptr;
  for (const Operand& o : operands) {
    if (!o.tensor || o.tensor->dim() == 0) continue;
    if (!(o.tensor->sizes() == sizes)) return false;
    if (first && !(first->strides() == o.tensor->strides())) return false;
    first = o.tensor;
  }
  if (!first || !first->impl()->is_non_overlapping_and_dense()) return false;
  if (!first->is_contiguous()) *strides = first->strides();
  return true;
}

// Negative where dimension `a` lies inside `b` in memory, positive where it lies outside, 0 where
// no operand tells: the first one that does decides. Of equal strides the smaller size is inside.
int compare_dims(ArrayRef<Operand> operands, IntArrayRef sizes, size_t a, size_t b) {
  for (const Operand& o : operands) {
    if (!o.tensor) continue;
    const size_t skip = sizes.size() - o.tensor->sizes().size();
    if (a < skip || b < skip) continue;
    const auto step = [&](size_t d) {  // 0 where the operand repeats itself
      const bool repeats = o.tensor->sizes()[d - skip] == 1 && sizes[d] != 1;
      return repeats ? 0 : o.tensor->strides()[d - skip];
    };
    const int64_t x = step(a), y = step(b);
    if (x == 0 || y == 0) continue;
    if (x != y) return x < y ? -1 : 1;
    if (sizes[a] < sizes[b]) return -1;
  }
  return 0;
}

// Dense strides in the operands' order of dimensions; empty when that is row-major.
DimVector ordered_strides(ArrayRef<Operand> operands, IntArrayRef sizes) {
  DimVector order;  // innermost first
  for (size_t d = sizes.size(); d-- > 0;) {
    order.push_back(static_cast<int64_t>(d));
    for (size_t at = order.size() - 1, left = at; left-- > 0;) {
      const auto other = static_cast<size_t>(order[left]);
      const int side = compare_dims(operands, sizes, d, other);
      if (side > 0) break;
      if (side == 0) continue;
      std::swap(order[left], order[at]);
      at = left;
    }
  }
  DimVector strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  bool overflow = false;
  for (const int64_t d : order) {
    check(!overflow, "Stride calculation overflowed with sizes=", sizes);
    const int64_t size = sizes[static_cast<size_t>(d)];
    strides[static_cast<size_t>(d)] = step;
    overflow = __builtin_mul_overflow(step, size > 1 ? size : 1, &step);
  }
  return strides == contiguous_strides(sizes) ? DimVector() : strides;
}

DimVector strides_in_operand_order(ArrayRef<Operand> operands, IntArrayRef sizes) {
  DimVector strides;
  return same_dense_strides(operands, sizes, &strides) ? strides : ordered_strides(operands, sizes);
}

void check_param(const char* name, const Scalar& value, ScalarType compute) {
  if (is_integral_type(compute, true)) {
    check(value.is_integral(true), name, ": expected an integer alpha for integer inputs, got ",
          value);
  }
  check(is_complex_type(compute) || !value.is_complex(), name,
        ": expected a real alpha for real inputs, got ", value);
}

}  // namespace

DimVector strides_in_order_of(ArrayRef<Tensor> operands, IntArrayRef sizes) {
  const std::vector<Operand> all(operands.begin(), operands.end());
  return strides_in_operand_order(all, sizes);
}

DimVector preserved_strides(const Tensor& self) {
  if (self.dim() < 2) return {};
  if (!self.impl()->is_non_overlapping_and_dense()) {
    return ordered_strides(ArrayRef<Operand>({Operand(self)}), self.sizes());
  }
  const DimVector strides = self.strides();
  return strides == contiguous_strides(self.sizes()) ? DimVector() : strides;
}

PointwiseDTypes dtypes_by_rule(const char* name, DTypeRule rule, uint32_t allowed,
                               ScalarType common) {
  if (rule == DTypeRule::Floating && is_integral_type(common, true) &&
      allowed >> index_of(common) & 1) {
    common = default_dtype();
  }
  if (!(allowed >> index_of(common) & 1)) fail_dtype(name, common);
  if (rule == DTypeRule::Number && common == ScalarType::Bool) common = ScalarType::Int64;
  PointwiseDTypes t{common, compute_type(common), compute_type(common), common};
  if (rule == DTypeRule::Compare || rule == DTypeRule::Logical) {
    t.loop_out = t.result = ScalarType::Bool;
  } else if (rule == DTypeRule::Real) {
    t.loop_out = to_real_type(t.compute);
    t.result = to_real_type(common);
  }
  return t;
}

namespace {

void check_mask(const PointwiseOp& op, const Tensor& mask) {
  const ScalarType t = mask.dtype();
  check(t == ScalarType::Bool || t == ScalarType::UInt8, op.name,
        ": expected a condition of bool or uint8, got ", mask);
}

}  // namespace

PointwiseDTypes pointwise_dtypes(const PointwiseOp& op, ArrayRef<Operand> operands) {
  if (op.rule == DTypeRule::Keep && operands[0].tensor) {
    return dtypes_by_rule(op.name, op.rule, op.allowed, operands[0].tensor->dtype());
  }
  TypePromotion promotion;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (op.masks >> i & 1) {
      check_mask(op, *o.tensor);
    } else if (o.tensor) {
      promotion.add(*o.tensor);
    } else {
      promotion.add(*o.scalar);
    }
  }
  return dtypes_by_rule(op.name, op.rule, op.allowed, promotion.result());
}

namespace {

// All operands are shown: the one that did not fit need not be the one that is wrong.
[[noreturn, gnu::cold]] void fail_broadcast(const char* name, ArrayRef<Operand> operands) {
  std::vector<Tensor> tensors;
  for (const Operand& o : operands) {
    if (o.tensor) tensors.push_back(*o.tensor);
  }
  DimVector sizes;
  try {
    for (const Tensor& t : tensors) sizes = broadcast_sizes(sizes, t.sizes());
  } catch (const Error& error) {
    fail(error.kind(), name, ": ", error.what(), ", got ", TensorList(tensors));
  }
  fail(ErrorKind::Runtime, name, ": shapes do not broadcast: got ", TensorList(tensors));
}

}  // namespace

OutSpec pointwise_spec(const PointwiseOp& op, ArrayRef<Operand> operands) {
  OutSpec spec;
  spec.dtype = pointwise_dtypes(op, operands).result;
  const Tensor* placed = nullptr;
  for (const Operand& o : operands) {
    if (!o.tensor) continue;
    if (!placed) {
      spec.sizes = DimVector(o.tensor->sizes());
    } else if (!broadcast_into(spec.sizes, o.tensor->sizes())) {
      fail_broadcast(op.name, operands);
    }
    const bool moves = placed && placed->dim() == 0 && placed->is_cpu();
    const bool fits = !placed || placed->device() == o.tensor->device() || moves ||
                      (o.tensor->dim() == 0 && o.tensor->is_cpu());
    check(fits, OtherDevice{op.name, placed ? placed->device() : Device(), o.tensor->device()});
    if (!placed || moves) placed = o.tensor;
  }
  check(placed != nullptr, op.name, ": expected at least one tensor, got numbers only");
  spec.device = placed->device();
  spec.strides = strides_in_operand_order(operands, spec.sizes);
  return spec;
}

void store_params(const char* name, ArrayRef<Scalar> params, ScalarType compute, void* slots) {
  check(params.size() <= kMaxParams, name, ": expected at most ", kMaxParams, " params, got ",
        params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    check_param(name, params[i], compute);
    params[i].store(compute, static_cast<char*>(slots) + 16 * i);
  }
}

const PointwiseOp& choose_case(const char* op, const char* argument, std::string_view value,
                               ArrayRef<PointwiseCase> cases) {
  std::string known;
  for (const PointwiseCase& c : cases) {
    if (c.value == value) return *c.op;
    known.append(known.empty() ? "'" : ", '").append(c.value).append("'");
  }
  fail(ErrorKind::Runtime, op, ": expected ", argument, " to be one of ", known, ", got '", value,
       "'");
}

}  // namespace flambeau
