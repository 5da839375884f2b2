#pragma once
// Groups of pointwise operators that run together, tile by tile: what one step writes is read by
// the next one from the L1 cache. The steps are the operators' own contiguous loops, in the order
// in which they were recorded, so that results are bit for bit those of single calls.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aten/core/pointwise_op.h"

namespace flambeau {

inline constexpr int kMaxFusedArrays = 16;  // inputs and results of a group

// Where a step reads an operand.
struct FusedOperand {
  int value = -1;  // an input, or the result of a step; -1: the number
  Scalar number;
};

// One call of an operator.
struct FusedStep {
  const PointwiseOp* op;
  std::vector<FusedOperand> operands;
  std::vector<Scalar> params;
  PointwiseDTypes types;
  // The loop over elements as they lie in memory, where all operands are bfloat16.
  bool is_stored;
};

struct FusedPlan;

class FusedGroup {
 public:
  // Values are numbered: the inputs, then the results of the steps. `outputs`: values of steps.
  FusedGroup(std::vector<ScalarType> inputs, std::vector<FusedStep> steps,
             std::vector<int> outputs);
  ~FusedGroup();

  // RuntimeError where number, dtype or device of the inputs are not those that were recorded, or
  // where the steps do not all have one size. Sizes and strides may differ from call to call.
  std::vector<Tensor> run(ArrayRef<Tensor> inputs) const;
  std::string describe() const;
  size_t num_inputs() const { return inputs_.size(); }

 private:
  struct Layout;

  void check_inputs(ArrayRef<Tensor> inputs) const;
  std::shared_ptr<const Layout> layout_of(ArrayRef<Tensor> inputs) const;
  std::vector<OutSpec> specs(ArrayRef<Tensor> inputs) const;

  std::vector<ScalarType> inputs_;
  std::vector<FusedStep> steps_;
  std::vector<int> outputs_;
  std::unique_ptr<const FusedPlan> plan_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Layout> last_;  // of the last call
};

// While one is in force in a thread, pointwise operators of the thread are not computed: each call
// is checked, becomes a step, and returns a tensor whose elements are not set.
class FusedRecorder {
 public:
  explicit FusedRecorder(std::vector<Tensor> inputs);

  Tensor record(const PointwiseOp& op, ArrayRef<Operand> operands, ArrayRef<Scalar> params);
  size_t num_steps() const { return steps_.size(); }
  // ValueError where an output is not the result of a step.
  std::shared_ptr<FusedGroup> group(ArrayRef<Tensor> outputs) const;

 private:
  int find(const Tensor& t) const;  // -1: neither an input nor a result

  std::vector<Tensor> values_;  // inputs, then results: kept, so that an address stays one tensor's
  size_t num_inputs_;
  std::vector<FusedStep> steps_;
};

// The recorder of this thread; null: operators compute.
extern thread_local constinit FusedRecorder* fused_recorder
    __attribute__((tls_model("initial-exec")));

// Whether a bfloat16 loop over elements as they lie in memory gives what the loop over float32
// does.
bool runs_as_stored(const PointwiseOp& op, ScalarType result, ArrayRef<Operand> operands);
// The loop of this processor for a compute type, or one that is stored as it is.
PointwiseLoop pointwise_loop(const PointwiseOp& op, ScalarType dtype);

}  // namespace flambeau
