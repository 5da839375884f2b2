#pragma once
// torch::optim: optimizers over parameter groups, and schedules of the learning rate.
#include <map>

#include "api/module.h"

namespace flambeau::api::optim {

using Betas = std::tuple<double, double>;
// Gives each option of a group its name in files, for `visit_options` of the classes below.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void visit(const char* name, double& value) = 0;
  virtual void visit(const char* name, bool& value) = 0;
  virtual void visit(const char* name, Betas& value) = 0;
};

class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  // NotImplementedError for a class without visit_options.
  virtual void visit(OptionVisitor& visitor) = 0;
};
[[noreturn]] void fail_visit();
template <typename Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  void visit(OptionVisitor& visitor) override {
    if constexpr (requires(Derived& o) { o.visit_options(visitor); }) {
      static_cast<Derived&>(*this).visit_options(visitor);
    } else {
      fail_visit();
    }
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

// Parameters that share options; without options of its own, a group has the optimizer's.
class OptimizerParamGroup {
 public:
  explicit OptimizerParamGroup(std::vector<Tensor> params,
                               std::unique_ptr<OptimizerOptions> options = nullptr)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& o)
      : params_(o.params_), options_(o.options_ ? o.options_->clone() : nullptr) {}
  OptimizerParamGroup& operator=(const OptimizerParamGroup&) = delete;

  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

// What an optimizer remembers of one parameter.
struct ParameterState {
  int64_t step = 0;
  std::map<std::string, Tensor> tensors;
  // The tensor of this name; the first call fills it with `value`.
  Tensor& filled(const std::string& name, const Tensor& like, double value = 0);
};

class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;

  Optimizer(std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update of each parameter that has a gradient; the loss that the closure computes.
  Tensor step(const LossClosure& closure = nullptr);
  void zero_grad(bool set_to_none = true);
  void add_param_group(OptimizerParamGroup group);
  std::vector<OptimizerParamGroup>& param_groups() { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return groups_; }
  OptimizerOptions& defaults() { return *defaults_; }
  // The state dict that Python's optimizer of this name has. `load` raises RuntimeError, and
  // changes nothing, for other numbers of groups or parameters and for options that C++ does not
  // have.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

 protected:
  virtual void update_one(const Tensor& parameter, const Tensor& grad, ParameterState& state,
                          const OptimizerOptions& options) = 0;
  // ValueError for options out of range.
  virtual void check_group(const OptimizerOptions& /*options*/) const {}
  // Whether Python's optimizer counts the steps of each parameter.
  virtual bool counts_steps() const { return true; }
  // The state of a parameter before its first step.
  virtual void begin(const Tensor& /*parameter*/, ParameterState& /*state*/,
                     const OptimizerOptions& /*options*/) const {}

 private:
  std::unique_ptr<OptimizerOptions> loaded_options(const serialize::InputArchive& archive,
                                                   uint32_t group, size_t i) const;

  std::vector<OptimizerParamGroup> groups_;
  std::unique_ptr<OptimizerOptions> defaults_;
  std::map<const c10::TensorImpl*, ParameterState> state_;
};

class SGDOptions : public OptimizerCloneableOptions<SGDOptions> {
 public:
  SGDOptions(double lr) : lr_(lr) {}  // NOLINT(google-explicit-constructor)
  void visit_options(OptionVisitor& v) {
    v.visit("lr", lr_);
    v.visit("momentum", momentum_);
    v.visit("dampening", dampening_);
    v.visit("weight_decay", weight_decay_);
    v.visit("nesterov", nesterov_);
  }
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;
};
class AdamOptions : public OptimizerCloneableOptions<AdamOptions> {
 public:
  AdamOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor)
  void visit_options(OptionVisitor& v) {
    v.visit("lr", lr_);
    v.visit("betas", betas_);
    v.visit("eps", eps_);
    v.visit("weight_decay", weight_decay_);
    v.visit("amsgrad", amsgrad_);
  }
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = { 0.9, 0.999 };
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, amsgrad) = false;
};
class AdamWOptions : public OptimizerCloneableOptions<AdamWOptions> {
 public:
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor)
  void visit_options(OptionVisitor& v) {
    v.visit("lr", lr_);
    v.visit("betas", betas_);
    v.visit("eps", eps_);
    v.visit("weight_decay", weight_decay_);
    v.visit("amsgrad", amsgrad_);
  }
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = { 0.9, 0.999 };
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 1e-2;
  TORCH_ARG(bool, amsgrad) = false;
};
class RMSpropOptions : public OptimizerCloneableOptions<RMSpropOptions> {
 public:
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT(google-explicit-constructor)
  void visit_options(OptionVisitor& v) {
    v.visit("lr", lr_);
    v.visit("alpha", alpha_);
    v.visit("eps", eps_);
    v.visit("weight_decay", weight_decay_);
    v.visit("momentum", momentum_);
    v.visit("centered", centered_);
  }
  TORCH_ARG(double, lr);
  TORCH_ARG(double, alpha) = 0.99;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(bool, centered) = false;
};
class AdagradOptions : public OptimizerCloneableOptions<AdagradOptions> {
 public:
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT(google-explicit-constructor)
  void visit_options(OptionVisitor& v) {
    v.visit("lr", lr_);
    v.visit("lr_decay", lr_decay_);
    v.visit("weight_decay", weight_decay_);
    v.visit("initial_accumulator_value", initial_accumulator_value_);
    v.visit("eps", eps_);
  }
  TORCH_ARG(double, lr);
  TORCH_ARG(double, lr_decay) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, initial_accumulator_value) = 0;
  TORCH_ARG(double, eps) = 1e-10;
};

// ValueError for options out of range.
void check_options(const SGDOptions& o);
void check_options(const AdamOptions& o);
void check_options(const AdamWOptions& o);
void check_options(const RMSpropOptions& o);
void check_options(const AdagradOptions& o);
// One step of one parameter.
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const SGDOptions& o);
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const AdamOptions& o);
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const AdamWOptions& o);
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const RMSpropOptions& o);
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const AdagradOptions& o);

// The state of a parameter before its first step, for optimizers that have one.
void begin(const Tensor& parameter, ParameterState& state, const AdagradOptions& o);

// An optimizer whose options are Options.
template <typename Options>
class OptimizerOf : public Optimizer {
 public:
  explicit OptimizerOf(std::vector<Tensor> params, Options options)
      : OptimizerOf(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))},
                    std::move(options)) {}
  explicit OptimizerOf(std::vector<Tensor> params)
    requires std::is_default_constructible_v<Options>
      : OptimizerOf(std::move(params), Options()) {}
  OptimizerOf(std::vector<OptimizerParamGroup> groups, Options options)
      : Optimizer(std::move(groups), options.clone()) {
    optim::check_options(options);
  }

 protected:
  void update_one(const Tensor& parameter, const Tensor& grad, ParameterState& state,
                  const OptimizerOptions& options) override {
    update(parameter, grad, state, static_cast<const Options&>(options));
  }
  void check_group(const OptimizerOptions& options) const override {
    optim::check_options(static_cast<const Options&>(options));
  }
  bool counts_steps() const override { return !std::is_same_v<Options, SGDOptions>; }
  void begin(const Tensor& parameter, ParameterState& state,
             const OptimizerOptions& options) const override {
    if constexpr (requires(const Options& o) { optim::begin(parameter, state, o); }) {
      optim::begin(parameter, state, static_cast<const Options&>(options));
    }
  }
};
using SGD = OptimizerOf<SGDOptions>;
using Adam = OptimizerOf<AdamOptions>;
using AdamW = OptimizerOf<AdamWOptions>;
using RMSprop = OptimizerOf<RMSpropOptions>;
using Adagrad = OptimizerOf<AdagradOptions>;

// Multiplies the learning rate by gamma after each `step_size` calls of step().
class StepLR {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1);
  void step();

 private:
  Optimizer& optimizer_;
  unsigned step_size_;
  double gamma_;
  unsigned count_ = 0;
};

}  // namespace flambeau::api::optim
