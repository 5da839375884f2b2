#pragma once
// What the generator says about one pointwise operator; the drivers need nothing else.
#include <optional>
#include <string_view>

#include "aten/core/loop_table.h"
#include "aten/core/out_spec.h"

namespace flambeau {

// How compute and result dtype follow from the common dtype of the operands.
enum class DTypeRule : uint8_t {
  Promote,   // result = common
  Floating,  // integers become the default floating type
  Compare,   // result bool
  Logical,   // result bool
  Real,      // result is the real type of the common one
  Integral,  // common must be an integer or bool
  Keep,      // the first operand's dtype
  Number,    // as Promote; bool becomes int64
};

struct PointwiseOp {
  const char* name;  // "add"
  DTypeRule rule;
  uint32_t allowed;  // bit i: ScalarType i may be the common dtype
  uint8_t num_operands;
  uint8_t num_params;
  uint8_t masks;  // bit i: operand i is bool or uint8 and does not take part in promotion
  // By compute dtype; a null entry is unsupported. Half types run the Float32 loop.
  LoopTable<PointwiseLoop> loops;
};

// A tensor or a number, by reference: lives as long as the call's arguments.
struct Operand {
  Operand(const Tensor& t) : tensor(&t) {}  // NOLINT(google-explicit-constructor)
  Operand(const Scalar& s) : scalar(&s) {}  // NOLINT(google-explicit-constructor)
  const Tensor* tensor = nullptr;
  const Scalar* scalar = nullptr;
};

struct PointwiseDTypes {
  ScalarType common;    // of the operands, by the rule
  ScalarType compute;   // of the loop's operands
  ScalarType loop_out;  // what the loop writes
  ScalarType result;    // of a fresh output
};
// Common dtype and its checks: NotImplementedError where `allowed` lacks it.
PointwiseDTypes pointwise_dtypes(const PointwiseOp& op, ArrayRef<Operand> operands);
// `allowed` or NotImplementedError; the dtypes that follow from `common` by `rule`.
PointwiseDTypes dtypes_by_rule(const char* name, DTypeRule rule, uint32_t allowed,
                               ScalarType common);

// The result's geometry, dtype and device: broadcast sizes in the operands' memory order.
OutSpec pointwise_spec(const PointwiseOp& op, ArrayRef<Operand> operands);
// Writes the params as `compute` values into 16-byte slots; errors where a category would be lost.
void store_params(const char* name, ArrayRef<Scalar> params, ScalarType compute, void* slots);
// The descriptor for one value of a str argument; RuntimeError that lists the values otherwise.
struct PointwiseCase {
  std::string_view value;
  const PointwiseOp* op;
};
const PointwiseOp& choose_case(const char* op, const char* argument, std::string_view value,
                               ArrayRef<PointwiseCase> cases);

}  // namespace flambeau
