#pragma once
// torch::autograd::Function: a differentiable function whose forward and backward are written in
// C++.
#include <typeinfo>
#include <unordered_map>

#include "api/guards.h"
#include "api/value.h"
#include "aten/autograd/saved_tensor.h"

namespace flambeau::api {

using variable_list = std::vector<Tensor>;
class FunctionNode;

class AutogradContext {
 public:
  void save_for_backward(variable_list to_save) { to_save_ = std::move(to_save); }
  variable_list get_saved_variables() const;
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  void mark_non_differentiable(const variable_list& outputs) { non_differentiable_ = outputs; }
  void set_materialize_grads(bool value) { materialize_grads_ = value; }
  // Whether forward's argument `i` needs a gradient; Tensors of lists count one by one.
  bool needs_input_grad(size_t i) const;

  std::unordered_map<std::string, IValue> saved_data;

 private:
  friend class FunctionNode;
  variable_list to_save_, dirty_, non_differentiable_;
  bool materialize_grads_ = true;
  FunctionNode* node_ = nullptr;
};

using FunctionBackward = variable_list (*)(AutogradContext* ctx, variable_list grads);

// The node of one call. It is made before forward runs and enters the graph only if it must.
class FunctionNode final : public autograd::Node {
 public:
  FunctionNode(const std::type_info& function, FunctionBackward backward);
  AutogradContext& context() { return context_; }
  const char* name() const override { return name_.c_str(); }
  autograd::Gradients apply(autograd::Gradients&& grads) override;
  void release_saved() override;

  // One call per argument of forward, in order.
  void add_tensor(const flambeau::Tensor& tensor);
  template <typename T>
  void add_argument(const T& argument) {
    if constexpr (std::is_base_of_v<flambeau::Tensor, T>) {
      add_tensor(argument);
    } else if constexpr (std::is_convertible_v<const T&, ArrayRef<Tensor>>) {
      for (const Tensor& t : ArrayRef<Tensor>(argument)) add_tensor(t);
    } else if constexpr (std::is_same_v<T, std::optional<Tensor>>) {
      argument ? add_tensor(*argument) : add_other();
    } else {
      add_other();
    }
  }
  // Gives the outputs their place in the graph.
  void finish(variable_list& outputs);

 private:
  friend class AutogradContext;
  void add_other() { edge_of_argument_.push_back(-1); }
  void finish_output(Tensor& output, uint32_t nr);
  void save();
  autograd::Gradients gradients_of(const variable_list& given) const;

  AutogradContext context_;
  std::string name_;
  FunctionBackward backward_;
  std::vector<int> edge_of_argument_;  // -1: no Tensor
  variable_list inputs_;               // until forward has ended
  std::vector<autograd::SavedTensor> saved_;
  bool records_ = false;
};

template <typename T>
struct Function {
  template <typename... Args>
  static auto apply(Args&&... args) {
    const auto node = autograd::make_node<FunctionNode>(
        typeid(T), [](AutogradContext* ctx, variable_list grads) -> variable_list {
          return T::backward(ctx, std::move(grads));
        });
    (node->add_argument(args), ...);
    const auto forward = [&] {
      const NoGradGuard no_grad;
      return T::forward(&node->context(), std::forward<Args>(args)...);
    };
    auto result = forward();
    if constexpr (std::is_base_of_v<flambeau::Tensor, decltype(result)>) {
      variable_list outputs = {std::move(result)};
      node->finish(outputs);
      return outputs[0];
    } else {
      node->finish(result);
      return result;
    }
  }
};

// Gradients of `inputs`, and sums into .grad of leaves.
variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs = {},
                   std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                   bool allow_unused = false);
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
              const variable_list& inputs = {});

}  // namespace flambeau::api
