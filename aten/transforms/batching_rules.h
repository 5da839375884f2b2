#pragma once
// One call under vmap while a rule answers it: shared by the parts of batching.h's interpreter.
#include <string>
#include <vector>

#include "aten/dispatch/operator_traits.h"
#include "aten/transforms/batching.h"

namespace flambeau::transforms {

// Calls f(tensor) for every defined tensor in one value of the stack.
template <typename F>
void each_tensor(IValue& value, const F& f) {
  if (value.is_tensor()) {
    if (Tensor& t = value.get<Tensor>(); t.defined()) f(t);
  } else if (std::holds_alternative<std::vector<Tensor>>(value.payload())) {
    for (Tensor& t : value.get<std::vector<Tensor>>()) {
      if (t.defined()) f(t);
    }
  }
}

struct BatchedCall {
  const OperatorEntry& op;
  const OperatorTraits& traits;
  Stack& stack;
  Layer layer;

  const Wrapper* batched(const Tensor& t) const { return wrapper_at(t, layer.level); }
  bool is_batched(IValue& value) const {
    bool found = false;
    each_tensor(value, [&](const Tensor& t) { found = found || batched(t); });
    return found;
  }
};

// --- the rules; each leaves the results on the stack
void run_place(BatchedCall& call, const BatchRule& rule);
void run_pointwise(BatchedCall& call, const BatchRule& rule);
void run_loop(BatchedCall& call);

// --- tensors, below the layer -------------------------------------------------------------------

// The value of a batched tensor with the batch dimension in front.
Tensor to_front(const Wrapper& wrapper);
// `t`, which is not batched, once per entry of the batch, without memory of its own.
Tensor expanded(const Tensor& t, int64_t batch_size);
// Ones behind the batch dimension until `t` has `rank` dimensions besides it.
Tensor padded(const Tensor& t, int64_t rank);

// Makes what is written to a tensor of the layer. RuntimeError if the caller can see it and it is
// not batched.
void require_batched_targets(BatchedCall& call);
// The results of a call below the layer, some of them the wrappers that were written to.
class Targets {
 public:
  explicit Targets(BatchedCall& call);
  // The wrapper of argument `i`, brought up to date; undefined if it was not written to.
  Tensor finished(size_t i) const;
  void refresh_all() const;

 private:
  struct Target {
    size_t argument;
    Tensor wrapper;
    uint32_t version;
  };
  std::vector<Target> targets_;
};

}  // namespace flambeau::transforms
