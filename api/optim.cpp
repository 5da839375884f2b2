// Formulas as in flambeau.optim: Kingma and Ba 2015 (Adam), Loshchilov and Hutter 2019 (AdamW),
// Tieleman and Hinton 2012 (RMSprop), Duchi et al. 2011 (Adagrad), Sutskever et al. 2013
// (momentum).
#include "api/optim.h"

#include <cmath>
#include <set>

namespace flambeau::api::optim {

Tensor& ParameterState::filled(const std::string& name, const Tensor& like, double value) {
  const auto [at, is_new] = tensors.try_emplace(name);
  if (is_new) at->second = full_like(like, value);
  return at->second;
}

Optimizer::Optimizer(std::vector<OptimizerParamGroup> groups,
                     std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (OptimizerParamGroup& group : groups) add_param_group(std::move(group));
}

void Optimizer::add_param_group(OptimizerParamGroup group) {
  std::set<const c10::TensorImpl*> known;
  for (const OptimizerParamGroup& other : groups_) {
    for (const Tensor& p : other.params()) known.insert(p.impl());
  }
  for (const Tensor& p : group.params()) {
    check_value(p.defined() && p.is_leaf(), "Optimizer: expected leaf tensors as parameters, got ",
                p.defined() ? "a computed tensor" : "an undefined tensor");
    check_value(known.insert(p.impl()).second,
                "Optimizer: expected each parameter once, got one twice");
  }
  if (!group.has_options()) group.set_options(defaults_->clone());
  groups_.push_back(std::move(group));
}

Tensor Optimizer::step(const LossClosure& closure) {
  Tensor loss;
  if (closure) {
    const AutoGradMode with_grad(true);
    loss = closure();
  }
  const NoGradGuard no_grad;
  for (OptimizerParamGroup& group : groups_) {
    for (const Tensor& parameter : group.params()) {
      const Tensor grad = parameter.grad();
      if (!grad.defined()) continue;
      ParameterState& state = state_[parameter.impl()];
      ++state.step;
      update_one(parameter, grad, state, group.options());
    }
  }
  return loss;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const OptimizerParamGroup& group : groups_) {
    for (const Tensor& parameter : group.params()) clear_grad(parameter, set_to_none);
  }
}

namespace {

void check_not_negative(const char* what, double value) {
  check_value(value >= 0, what, " of 0 or more, got ", value);  // NaN too
}
void check_betas(const char* who, const Betas& betas) {
  const auto [first, second] = betas;
  check_value(first >= 0 && first < 1 && second >= 0 && second < 1, who,
              ": expected betas of 0 or more and less than 1, got ", first, " and ", second);
}
Tensor decayed(const Tensor& parameter, const Tensor& grad, double weight_decay) {
  return weight_decay == 0 ? grad : grad.add(parameter, weight_decay);
}

// AdamW's decay acts on the parameter instead of the gradient.
template <typename Options>
void adam(const Tensor& parameter, const Tensor& grad, ParameterState& state, const Options& o) {
  const auto [beta1, beta2] = o.betas();
  Tensor& mean = state.filled("exp_avg", parameter);
  Tensor& square = state.filled("exp_avg_sq", parameter);
  mean.lerp_(grad, 1 - beta1);
  square.mul_(beta2).addcmul_(grad, grad, 1 - beta2);
  const double steps = static_cast<double>(state.step);
  const double correction1 = 1 - std::pow(beta1, steps);
  const double correction2 = std::sqrt(1 - std::pow(beta2, steps));
  Tensor used = square;
  if (o.amsgrad()) {
    Tensor& largest = state.filled("max_exp_avg_sq", parameter);
    largest.copy_(maximum(largest, square));
    used = largest;
  }
  parameter.addcdiv_(mean, used.sqrt().div(correction2).add(o.eps()), -o.lr() / correction1);
}

}  // namespace

void check_options(const SGDOptions& o) {
  check_not_negative("SGD: expected a learning rate", o.lr());
  check_not_negative("SGD: expected a momentum", o.momentum());
  check_not_negative("SGD: expected a weight decay", o.weight_decay());
  check_value(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0),
              "SGD: expected a momentum and no dampening with nesterov, got momentum ",
              o.momentum(), " and dampening ", o.dampening());
}
void update(const Tensor& parameter, const Tensor& given, ParameterState& state,
            const SGDOptions& o) {
  Tensor grad = decayed(parameter, given, o.weight_decay());
  if (o.momentum() != 0) {
    const auto [at, is_new] = state.tensors.try_emplace("momentum_buffer");
    Tensor& velocity = at->second;
    if (is_new) {
      velocity = grad.detach().clone();
    } else {
      velocity.mul_(o.momentum()).add_(grad, 1 - o.dampening());
    }
    grad = o.nesterov() ? grad.add(velocity, o.momentum()) : velocity;
  }
  parameter.add_(grad, -o.lr());
}

void check_options(const AdamOptions& o) {
  check_not_negative("Adam: expected a learning rate", o.lr());
  check_not_negative("Adam: expected an epsilon", o.eps());
  check_not_negative("Adam: expected a weight decay", o.weight_decay());
  check_betas("Adam", o.betas());
}
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const AdamOptions& o) {
  adam(parameter, decayed(parameter, grad, o.weight_decay()), state, o);
}

void check_options(const AdamWOptions& o) {
  check_not_negative("AdamW: expected a learning rate", o.lr());
  check_not_negative("AdamW: expected an epsilon", o.eps());
  check_not_negative("AdamW: expected a weight decay", o.weight_decay());
  check_betas("AdamW", o.betas());
}
void update(const Tensor& parameter, const Tensor& grad, ParameterState& state,
            const AdamWOptions& o) {
  if (o.weight_decay() != 0) parameter.mul_(1 - o.lr() * o.weight_decay());
  adam(parameter, grad, state, o);
}

void check_options(const RMSpropOptions& o) {
  check_not_negative("RMSprop: expected a learning rate", o.lr());
  check_not_negative("RMSprop: expected an alpha", o.alpha());
  check_not_negative("RMSprop: expected an epsilon", o.eps());
  check_not_negative("RMSprop: expected a weight decay", o.weight_decay());
  check_not_negative("RMSprop: expected a momentum", o.momentum());
}
void update(const Tensor& parameter, const Tensor& given, ParameterState& state,
            const RMSpropOptions& o) {
  const Tensor grad = decayed(parameter, given, o.weight_decay());
  Tensor& square = state.filled("square_avg", parameter);
  square.mul_(o.alpha()).addcmul_(grad, grad, 1 - o.alpha());
  Tensor scale = square;
  if (o.centered()) {
    Tensor& mean = state.filled("grad_avg", parameter);
    mean.lerp_(grad, 1 - o.alpha());
    scale = square.sub(mean.mul(mean));
  }
  scale = scale.sqrt().add(o.eps());
  if (o.momentum() > 0) {
    Tensor& velocity = state.filled("momentum_buffer", parameter);
    velocity.mul_(o.momentum()).addcdiv_(grad, scale);
    parameter.add_(velocity, -o.lr());
  } else {
    parameter.addcdiv_(grad, scale, -o.lr());
  }
}

void check_options(const AdagradOptions& o) {
  check_not_negative("Adagrad: expected a learning rate", o.lr());
  check_not_negative("Adagrad: expected a decay of the learning rate", o.lr_decay());
  check_not_negative("Adagrad: expected an epsilon", o.eps());
  check_not_negative("Adagrad: expected a weight decay", o.weight_decay());
  check_not_negative("Adagrad: expected an initial value", o.initial_accumulator_value());
}
void begin(const Tensor& parameter, ParameterState& state, const AdagradOptions& o) {
  state.filled("sum", parameter, o.initial_accumulator_value());
}
void update(const Tensor& parameter, const Tensor& given, ParameterState& state,
            const AdagradOptions& o) {
  const Tensor grad = decayed(parameter, given, o.weight_decay());
  begin(parameter, state, o);
  Tensor& sum = state.tensors["sum"];
  sum.addcmul_(grad, grad, 1);
  const double rate = o.lr() / (1 + static_cast<double>(state.step - 1) * o.lr_decay());
  parameter.addcdiv_(grad, sum.sqrt().add(o.eps()), -rate);
}

StepLR::StepLR(Optimizer& optimizer, unsigned step_size, double gamma)
    : optimizer_(optimizer), step_size_(step_size), gamma_(gamma) {
  check_value(step_size > 0, "StepLR: expected a step_size of 1 or more, got 0");
}
void StepLR::step() {
  if (++count_ % step_size_ != 0) return;
  for (OptimizerParamGroup& group : optimizer_.param_groups()) {
    group.options().set_lr(group.options().get_lr() * gamma_);
  }
}

}  // namespace flambeau::api::optim
