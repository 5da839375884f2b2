#pragma once
// Custom Functions: the node that runs a backward written in Python, and its context.
#include <functional>

#include "aten/autograd/saved_tensor.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {

// The context of one call of a Function. Its Python class knows the Function as `_forward_cls`.
struct ContextObject {
  NodeObject base;
  PyObject* needs_input_grad;
  PyObject* to_save;            // until the forward pass ends
  PyObject* saved_for_forward;  // until jvp has run
  PyObject* dirty;
  PyObject* non_differentiable;
  std::vector<autograd::SavedTensor> saved;
  std::vector<bool> is_tensor_input;
  bool materialize_grads;
  bool saved_are_released;
};

class FunctionNode final : public autograd::Node {
 public:
  explicit FunctionNode(PyObject* context);
  ~FunctionNode() override { drop_context(); }
  const char* name() const override;
  autograd::Gradients apply(autograd::Gradients&& grads) override;
  void release_saved() override;
  void show_saved(autograd::SavedFields& fields) override;
  PyObject* context() const { return context_; }

 protected:
  void release_resources() override {
    Node::release_resources();
    drop_context();
  }

 private:
  void drop_context();

  PyObject* context_;
};

inline ContextObject& context_object(PyObject* o) { return *reinterpret_cast<ContextObject*>(o); }
// Calls an operator of Python and records the derivative that `function`, a class of
// autograd.Function, has. `forward` computes the outputs; `setup` is null or the setup_context of
// the derivative, which takes (ctx, inputs, output) by name.
Ref apply_recorder(PyObject* function, PyObject* arguments, PyObject* setup,
                   const std::function<Ref()>& forward);
// _apply_function(cls, args): the call of a Function.
PyObject* apply_function(PyObject*, PyObject* args);

}  // namespace flambeau::python
