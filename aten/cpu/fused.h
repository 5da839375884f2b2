#pragma once
// Fused groups of pointwise operators: recorded once, then run block by block through the loops of
// the operators, so that intermediate results stay in the L1 cache. Nothing is compiled. Each step
// rounds to its result dtype, so that results are bit for bit those of the operators called one by
// one. Functions of the C library are the exception: the last elements of a loop, which do not fill
// a vector, may differ in the last bits, and where loops end depends on strides in either way.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aten/cpu/pointwise_recording.h"

namespace flambeau {

struct FusedInput {
  ScalarType dtype;
  bool is_number;  // a wrapped number, which counts by category in promotion
};

struct FusedOperand {
  enum class Kind : uint8_t { Input, Step, Number, Constant };
  Kind kind;
  int32_t index = 0;     // of the input or step
  Scalar number = {};    // of Number
  Tensor constant = {};  // of Constant: a wrapped number
};

struct FusedStep {
  const PointwiseOp* op;
  std::vector<FusedOperand> operands;
  std::vector<Scalar> params;
  PointwiseDTypes types;
};

class FusedPlan;

// One part of a group, compiled. `strides`: bytes to the next column and row, by array.
using FusedKernel = uint32_t (*)(int64_t columns, int64_t rows, char* const* data,
                                 const int64_t* strides, const void* slots);

// Immutable but for the plan of the last geometry; any number of threads may run one group.
class FusedGroup {
 public:
  // `outputs`: steps.
  FusedGroup(std::vector<FusedInput> inputs, std::vector<FusedStep> steps,
             std::vector<int32_t> outputs);
  // Sizes and strides may differ from the recorded ones; dtypes may not. RuntimeError where an
  // input does not fit, TypeError for another number of inputs.
  std::vector<Tensor> run(ArrayRef<const Tensor*> inputs) const;
  // The same, where some outputs are written to given tensors of their sizes and dtypes; null: a
  // new tensor. RuntimeError where a given tensor does not fit its output.
  std::vector<Tensor> run_into(ArrayRef<const Tensor*> given, ArrayRef<const Tensor*> inputs) const;
  // A line for each step: "s0 = add(i0, i1): float32".
  std::string describe() const;

  struct Kernel {
    FusedKernel kernel = nullptr;
    bool is_measured = true;  // runs only where it is quicker than the codes; else always
  };
  // The text of each part for inputs of this geometry, from which a kernel can be generated (see
  // FusedPart); without those that have none.
  std::vector<std::string> texts(ArrayRef<const Tensor*> inputs) const;
  struct Part {
    std::string text;               // as above, also of a single step
    std::vector<int32_t> inputs;    // by array: the input that it is; -1: a result or a constant
    std::vector<Tensor> constants;  // by array, undefined for others
  };
  // All parts for inputs of this geometry, and the 16 bytes of each number and parameter.
  std::pair<std::vector<Part>, std::string> parts(ArrayRef<const Tensor*> inputs) const;
  // From now on `kernel` is used for parts with this text; it must live as long as the process.
  void install(const std::string& text, Kernel kernel) const;
  Kernel kernel_for(const std::string& text) const;
  // Of each part of the last geometry: "codes", "kernel", or "measuring".
  std::vector<std::string> choices() const;

  const std::vector<FusedInput>& inputs() const { return inputs_; }
  const std::vector<FusedStep>& steps() const { return steps_; }
  const std::vector<int32_t>& outputs() const { return outputs_; }

 private:
  void check_inputs(ArrayRef<const Tensor*> inputs) const;
  void check_given(ArrayRef<const Tensor*> given, const FusedPlan& plan) const;
  void drop_unused_steps();
  Tensor run_one_step(ArrayRef<const Tensor*> inputs) const;
  std::shared_ptr<const FusedPlan> plan_for(ArrayRef<const Tensor*> inputs) const;

  std::vector<FusedInput> inputs_;
  std::vector<FusedStep> steps_;
  std::vector<int32_t> outputs_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const FusedPlan> plan_;
  mutable std::map<std::string, Kernel> kernels_;  // by text
};

// Records the pointwise operators that its thread calls between start() and stop().
class FusedRecorder final : public PointwiseRecorder {
 public:
  explicit FusedRecorder(std::vector<Tensor> inputs);
  ~FusedRecorder() = default;
  FusedRecorder(const FusedRecorder&) = delete;
  FusedRecorder& operator=(const FusedRecorder&) = delete;

  void start();
  void stop();
  size_t steps() const;
  std::shared_ptr<const FusedGroup> group(ArrayRef<const Tensor*> outputs) const;
  Tensor record(const PointwiseOp& op, ArrayRef<Operand> operands,
                ArrayRef<Scalar> params) override;

 private:
  FusedOperand operand_of(const PointwiseOp& op, const Operand& operand) const;

  std::vector<Tensor> inputs_;
  std::vector<Tensor> results_;  // without memory; kept so that their addresses stay theirs
  std::vector<FusedStep> steps_;
  mutable std::mutex mutex_;
};

}  // namespace flambeau
