#pragma once
// torch::nn::Sequential, ModuleList and Functional.
#include "torchgen_out/api/modules.h"

namespace flambeau::api::nn {

// A function of one tensor as a module.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  FunctionalImpl(Function function)  // NOLINT(google-explicit-constructor)
      : Cloneable("torch::nn::Functional"), function_(std::move(function)) {}
  void reset() override {}
  Tensor forward(const Tensor& input) const { return function_(input); }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

// A chain of modules, each of which takes a tensor and gives one.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  template <typename... Modules>
  explicit SequentialImpl(Modules&&... modules) : Cloneable("torch::nn::Sequential") {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  SequentialImpl(const SequentialImpl&) = default;
  SequentialImpl(SequentialImpl& other) : SequentialImpl(std::as_const(other)) {}

  template <typename T>
    requires std::is_base_of_v<Module, T>
  void push_back(std::string name, std::shared_ptr<T> module) {
    steps_.push_back(
        {[](Module& m, const Tensor& x) -> Tensor { return static_cast<T&>(m).forward(x); }});
    register_module(std::move(name), std::move(module));
  }
  template <typename T>
    requires std::is_base_of_v<Module, T>
  void push_back(std::shared_ptr<T> module) {
    push_back(std::to_string(size()), std::move(module));
  }
  template <typename T>
  void push_back(const ModuleHolder<T>& module) {
    push_back(module.ptr());
  }
  template <typename T>
  void push_back(std::string name, const ModuleHolder<T>& module) {
    push_back(std::move(name), module.ptr());
  }
  template <typename F>
    requires std::is_invocable_r_v<Tensor, F, const Tensor&> && (!requires(F f) { f.ptr(); }) &&
             (!requires(F f) { f->parameters(); })
  void push_back(F function) {
    push_back(Functional(FunctionalImpl::Function(std::move(function))));
  }

  void reset() override {}
  std::shared_ptr<Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override;
  Tensor forward(const Tensor& input) const;
  size_t size() const { return steps_.size(); }
  bool is_empty() const { return steps_.empty(); }
  // IndexError for an index out of range.
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  std::shared_ptr<Module> ptr(size_t i) const;

 private:
  using Step = Tensor (*)(Module& module, const Tensor& input);
  std::vector<Step> steps_;  // one per child
};
TORCH_MODULE(Sequential);

// Modules under the names 0, 1, ...
class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  template <typename... Modules>
  explicit ModuleListImpl(Modules&&... modules) : Cloneable("torch::nn::ModuleList") {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  ModuleListImpl(const ModuleListImpl&) = default;
  ModuleListImpl(ModuleListImpl& other) : ModuleListImpl(std::as_const(other)) {}

  void push_back(std::shared_ptr<Module> module) {
    register_module(std::to_string(size()), std::move(module));
  }
  template <typename T>
  void push_back(const ModuleHolder<T>& module) {
    push_back(module.ptr());
  }
  void reset() override {}
  std::shared_ptr<Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override;
  size_t size() const { return children_.size(); }
  bool is_empty() const { return children_.is_empty(); }
  // IndexError for an index out of range.
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  std::shared_ptr<Module> ptr(size_t i) const;
};
TORCH_MODULE(ModuleList);

}  // namespace flambeau::api::nn
