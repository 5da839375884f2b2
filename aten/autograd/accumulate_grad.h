#pragma once
// The sink of a leaf: adds what arrives to its .grad. One per leaf while anything refers to it.
#include "aten/autograd/autograd_meta.h"

namespace flambeau::autograd {

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& variable);
  const char* name() const override { return "AccumulateGrad"; }
  Gradients apply(Gradients&& grads) override;
  const Tensor& variable() const { return variable_; }

 protected:
  void release_resources() override {
    Node::release_resources();
    variable_.reset();
  }

 private:
  void accumulate(Tensor&& grad);

  Tensor variable_;
  std::mutex mutex_;
};

}  // namespace flambeau::autograd
