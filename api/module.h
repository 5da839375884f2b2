#pragma once
// torch::nn::Module: parameters, buffers and submodules under names, and what is done to all of
// them. Layers are generated over it (codegen/cpp_modules.yaml).
#include <functional>
#include <memory>

#include "api/namespaces.h"
#include "api/ordered_dict.h"

namespace flambeau::api::serialize {
class InputArchive;
class OutputArchive;
}  // namespace flambeau::api::serialize

namespace flambeau::api::nn {

template <typename Impl>
class ModuleHolder;

class Module : public std::enable_shared_from_this<Module> {
 public:
  explicit Module(std::string name = "") : name_(std::move(name)) {}
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module() = default;

  // The name given, or that of the class.
  std::string name() const;

  // --- registration: RuntimeError for an empty name, a dot in it, or one that is taken
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <typename T>
  std::shared_ptr<T> register_module(std::string name, std::shared_ptr<T> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <typename T>
  std::shared_ptr<T> register_module(std::string name, const ModuleHolder<T>& holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <typename T>
  std::shared_ptr<T> replace_module(const std::string& name, std::shared_ptr<T> module) {
    children_[name] = module;
    return module;
  }
  void unregister_module(const std::string& name) { children_.erase(name); }

  // --- what is registered: undefined tensors (as of bias(false)) are left out
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  const OrderedDict<std::string, std::shared_ptr<Module>>& named_children() const {
    return children_;
  }
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true);
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& prefix = "",
                                                                  bool include_self = true);

  // --- for the module and all below it
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const noexcept { return is_training_; }
  virtual void to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false);
  virtual void to(c10::ScalarType dtype, bool non_blocking = false);
  virtual void to(c10::Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);
  void apply(const std::function<void(Module&)>& f);
  void apply(const std::function<void(const std::string&, Module&)>& f,
             const std::string& prefix = "");

  // A copy with tensors of its own; NotImplementedError for a class that is not Cloneable.
  virtual std::shared_ptr<Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const;
  virtual void pretty_print(std::ostream& out) const;
  // Parameters and buffers under the names of Python's state_dict(). `load` copies values; the
  // dtypes become those of the file. RuntimeError for an entry that is missing or has other sizes.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

  template <typename T>
  typename T::ContainedType* as() noexcept {
    return dynamic_cast<typename T::ContainedType*>(this);
  }
  template <typename T>
    requires std::is_base_of_v<Module, T>
  T* as() noexcept {
    return dynamic_cast<T*>(this);
  }

 protected:
  // Gives a fresh instance, made by the class's reset(), the values of this one.
  void copy_into(Module& fresh, const std::optional<c10::Device>& device) const;
  void forget_registered();

  OrderedDict<std::string, Tensor> parameters_, buffers_;
  OrderedDict<std::string, std::shared_ptr<Module>> children_;
  bool is_training_ = true;

 private:
  void add_child(std::string name, std::shared_ptr<Module> module);
  void check_name(const char* what, const std::string& name) const;
  using Visit = std::function<void(const std::string& path, const Module& module)>;
  void visit(const std::string& path, const Visit& f) const;
  void convert(const std::function<Tensor(const Tensor&)>& f);

  std::string name_;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

// A module class with reset(), which registers all parameters, buffers and submodules anew.
template <typename Derived>
class Cloneable : public Module {
 public:
  using Module::Module;
  virtual void reset() = 0;
  std::shared_ptr<Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    Cloneable& fresh = *copy;
    fresh.forget_registered();
    fresh.reset();
    copy_into(fresh, device);
    return copy;
  }
};

// A shared_ptr of a module that is used like a value: Linear over LinearImpl.
template <typename Impl>
class ModuleHolder {
 public:
  using ContainedType = Impl;

  ModuleHolder()
    requires std::is_default_constructible_v<Impl>
      : impl_(std::make_shared<Impl>()) {}
  ModuleHolder(std::nullptr_t) {}                                           // NOLINT
  ModuleHolder(std::shared_ptr<Impl> module) : impl_(std::move(module)) {}  // NOLINT
  template <typename Head, typename... Tail>
    requires(!std::is_base_of_v<ModuleHolder, std::decay_t<Head>> &&
             !std::is_same_v<std::decay_t<Head>, std::nullptr_t> &&
             !std::is_convertible_v<Head, std::shared_ptr<Impl>>)
  explicit ModuleHolder(Head&& head, Tail&&... tail)
      : impl_(std::make_shared<Impl>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  Impl* get() const { return checked().get(); }
  Impl* operator->() const { return get(); }
  Impl& operator*() const { return *get(); }
  const std::shared_ptr<Impl>& ptr() const { return checked(); }
  template <typename... Args>
  decltype(auto) operator()(Args&&... args) const {
    return get()->forward(std::forward<Args>(args)...);
  }

 private:
  const std::shared_ptr<Impl>& checked() const {
    check(impl_ != nullptr, "ModuleHolder: expected a module, got an empty holder");
    return impl_;
  }
  std::shared_ptr<Impl> impl_;
};
template <typename Impl>
std::ostream& operator<<(std::ostream& out, const ModuleHolder<Impl>& module) {
  return out << *module;
}

}  // namespace flambeau::api::nn

#define TORCH_MODULE_IMPL(Name, ImplType)                            \
  class Name : public ::flambeau::api::nn::ModuleHolder<ImplType> {  \
   public:                                                           \
    using ::flambeau::api::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl = ImplType;                                           \
    Name() = default;                                                \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)
// A field of an options struct, with a setter that can be chained.
#define TORCH_ARG(T, name)                                 \
 public:                                                   \
  auto name(const T& value) -> decltype(*this) {           \
    this->name##_ = value;                                 \
    return *this;                                          \
  }                                                        \
  auto name(T&& value) -> decltype(*this) {                \
    this->name##_ = std::move(value);                      \
    return *this;                                          \
  }                                                        \
  const T& name() const noexcept { return this->name##_; } \
  T& name() noexcept { return this->name##_; }             \
                                                           \
 private:                                                  \
  T name##_ /* NOLINT */
