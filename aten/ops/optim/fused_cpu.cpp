// One step of an optimizer for a list of parameters on CPU, in one pass over memory per parameter.
// Formula:
//   sgd      b = mu b + (1 - tau) g, p -= lr (nesterov: g + mu b; else b)
//   adam     m += (1 - b1) (g - m), v = b2 v + (1 - b2) g^2,
//            p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//   adagrad  s += g^2, p -= lr / (1 + (t - 1) decay) g / (sqrt(s) + eps)
//   with g negated to maximize and with the weight decay added, which adamw takes off p instead;
//   before that, in a pass of its own, g is divided by grad_scale.
// Accumulates in: accumulate_t; factors of the step in double.
// NaN, infinity: both follow IEEE arithmetic; where found_inf is not 0 nothing happens.
// Error: 4 eps relative to the step.
// Source: those of flambeau.optim.
#include <array>
#include <cmath>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/parallel.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/optim_kernels.h"

namespace flambeau::ops {
namespace {

double number_of(const Tensor& t) {
  check(t.numel() == 1 && is_floating_type(t.dtype()),
        "fused optimizer: expected a floating-point tensor with one element, got ", t);
  return dispatch_floating(t.dtype(), "fused optimizer",
                           [&]<typename T>() { return static_cast<double>(*t.data_as<T>()); });
}

// What all steps do to the gradient first: negate it to maximize, add the weight decay.
template <typename Acc>
struct Gradient {
  Gradient(double weight_decay, bool maximize)
      : sign(maximize ? Acc(-1) : Acc(1)),
        decay(static_cast<Acc>(weight_decay)),
        decays(weight_decay != 0) {}

  Acc of(Acc g, Acc p) const { return sign * g + (decays ? decay * p : Acc(0)); }  // p may be inf

  Acc sign, decay;
  bool decays;
};

// Whether the step is left out because a gradient was infinite.
bool is_skipped(const Tensor& found_inf) {
  return found_inf.defined() && number_of(found_inf) != 0;
}

// Calls body.template operator()<T>(pointers, begin, end) for stretches of the memory of the i-th
// tensors of all lists. Tensors whose memory order differs are worked on in row-major copies.
template <size_t N, typename Body>
void each_element(const char* op, size_t i, const std::array<TensorList, N>& lists,
                  const Body& body) {
  const Tensor& p = lists[0][i];
  bool alike = p.impl()->is_non_overlapping_and_dense();
  for (const TensorList& list : lists) {
    check(list.size() == lists[0].size(), op, ": expected lists of ", lists[0].size(),
          " tensors, got one of ", list.size());
    check(list[i].dtype() == p.dtype() && list[i].sizes() == p.sizes(), op,
          ": expected tensors of the parameter's shape and dtype, ", p, ", got ", list[i]);
    alike = alike && list[i].strides() == p.strides();
  }
  std::array<Tensor, N> work;
  for (size_t k = 0; k < N; ++k) work[k] = alike ? lists[k][i] : contiguous_tensor(lists[k][i]);
  dispatch_floating(p.dtype(), op, [&]<typename T>() {
    std::array<T*, N> memory;
    for (size_t k = 0; k < N; ++k) memory[k] = work[k].template data_as<T>();
    parallel_for(0, p.numel(), static_cast<int64_t>(2 * N), [&](int64_t begin, int64_t end) {
      body.template operator()<T>(memory, begin, end);
    });
  });
  if (alike) return;
  for (size_t k = 0; k < N; ++k) {
    if (work[k].impl() != lists[k][i].impl()) copy_into(lists[k][i], work[k]);
  }
}

// Divides gradients by the scale of the loss, in place; a pass of its own, as it is seldom asked
// for.
void unscale(const char* op, TensorList grads, const Tensor& grad_scale) {
  if (!grad_scale.defined()) return;
  const double scale = number_of(grad_scale);
  for (size_t i = 0; i < grads.size(); ++i) {
    each_element<1>(op, i, {grads},
                    [&]<typename T>(const std::array<T*, 1>& memory, int64_t begin, int64_t end) {
                      using Acc = accumulate_t<T>;
                      const Acc divisor = static_cast<Acc>(scale);
                      T* g = memory[0];
                      for (int64_t k = begin; k < end; ++k)
                        g[k] = static_cast<T>(static_cast<Acc>(g[k]) / divisor);
                    });
  }
}

struct Sgd {
  double weight_decay, momentum, lr, dampening;
  bool nesterov, maximize, is_first_step;

  template <typename T, size_t N>
  void run(const std::array<T*, N>& memory, int64_t begin, int64_t end) const {
    using Acc = accumulate_t<T>;
    const Acc rate = static_cast<Acc>(lr), mu = static_cast<Acc>(momentum);
    const Acc fresh = static_cast<Acc>(is_first_step ? 1 : 1 - dampening);
    const bool first = is_first_step, ahead = nesterov;  // in registers
    const Gradient<Acc> gradient(weight_decay, maximize);
    T *p = memory[0], *b = memory[N - 1];
    const T* g = memory[1];
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const Acc x = static_cast<Acc>(p[i]);
      Acc d = gradient.of(static_cast<Acc>(g[i]), x);
      if constexpr (N == 3) {
        const Acc past = first ? Acc(0) : mu * static_cast<Acc>(b[i]);
        const Acc moved = past + fresh * d;
        b[i] = static_cast<T>(moved);
        d = ahead ? d + mu * moved : moved;
      }
      p[i] = static_cast<T>(x - rate * d);
    }
  }
};

struct Adam {
  double lr, beta1, beta2, shrink, eps, decay;
  bool maximize;

  template <bool kMax, typename T, size_t N>
  void run(const std::array<T*, N>& memory, double step, int64_t begin, int64_t end) const {
    using Acc = accumulate_t<T>;
    const Acc rate = static_cast<Acc>(lr / (1 - std::pow(beta1, step)));
    const Acc root = static_cast<Acc>(std::sqrt(1 - std::pow(beta2, step)));
    const Acc w1 = static_cast<Acc>(1 - beta1), b2 = static_cast<Acc>(beta2);
    const Acc w2 = static_cast<Acc>(1 - beta2), keep = static_cast<Acc>(shrink);
    const Acc epsilon = static_cast<Acc>(eps);
    const Gradient<Acc> gradient(decay, maximize);
    T *p = memory[0], *m = memory[2], *v = memory[3], *top = memory[N - 1];
    const T* g = memory[1];
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const Acc x = static_cast<Acc>(p[i]) * keep;
      const Acc d = gradient.of(static_cast<Acc>(g[i]), x);
      const Acc mean = static_cast<Acc>(m[i]) + w1 * (d - static_cast<Acc>(m[i]));
      const Acc square = b2 * static_cast<Acc>(v[i]) + w2 * d * d;
      m[i] = static_cast<T>(mean);
      v[i] = static_cast<T>(square);
      Acc size = square;
      if constexpr (kMax) {
        const Acc before = static_cast<Acc>(top[i]);
        size = square > before || square != square ? square : before;
        top[i] = static_cast<T>(size);
      }
      p[i] = static_cast<T>(x - rate * mean / (std::sqrt(size) / root + epsilon));
    }
  }
};

void adam_steps(const char* op, const Adam& adam, TensorList self, TensorList grads,
                TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
                TensorList state_steps, bool amsgrad) {
  check(state_steps.size() == self.size(), op, ": expected one step for each parameter, got ",
        state_steps.size(), " for ", self.size());
  for (size_t i = 0; i < self.size(); ++i) {
    const double step = number_of(state_steps[i]);
    const auto body = [&]<typename T, size_t N>(const std::array<T*, N>& memory, int64_t begin,
                                                int64_t end) {
      adam.run<N == 5>(memory, step, begin, end);
    };
    if (amsgrad) {
      const auto all = [&]<typename T>(const std::array<T*, 5>& m, int64_t b, int64_t e) {
        body(m, b, e);
      };
      each_element<5>(op, i, {self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs}, all);
    } else {
      const auto all = [&]<typename T>(const std::array<T*, 4>& m, int64_t b, int64_t e) {
        body(m, b, e);
      };
      each_element<4>(op, i, {self, grads, exp_avgs, exp_avg_sqs}, all);
    }
  }
}

}  // namespace

void fused_sgd_cpu(TensorList self, TensorList grads, TensorList momentum_buffer_list,
                   double weight_decay, double momentum, double lr, double dampening, bool nesterov,
                   bool maximize, bool is_first_step, const Tensor& grad_scale,
                   const Tensor& found_inf) {
  if (is_skipped(found_inf)) return;
  unscale("_fused_sgd_", grads, grad_scale);
  const Sgd sgd{weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step};
  for (size_t i = 0; i < self.size(); ++i) {
    if (momentum != 0) {
      const auto all = [&]<typename T>(const std::array<T*, 3>& m, int64_t b, int64_t e) {
        sgd.run(m, b, e);
      };
      each_element<3>("_fused_sgd_", i, {self, grads, momentum_buffer_list}, all);
    } else {
      const auto all = [&]<typename T>(const std::array<T*, 2>& m, int64_t b, int64_t e) {
        sgd.run(m, b, e);
      };
      each_element<2>("_fused_sgd_", i, {self, grads}, all);
    }
  }
}

void fused_adam_cpu(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                    TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1,
                    double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                    const Tensor& grad_scale, const Tensor& found_inf) {
  if (is_skipped(found_inf)) return;
  unscale("_fused_adam_", grads, grad_scale);
  const Adam adam{lr, beta1, beta2, 1, eps, weight_decay, maximize};
  adam_steps("_fused_adam_", adam, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
             amsgrad);
}

void fused_adamw_cpu(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                     TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1,
                     double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                     const Tensor& grad_scale, const Tensor& found_inf) {
  if (is_skipped(found_inf)) return;
  const double shrink = 1 - lr * weight_decay;
  unscale("_fused_adamw_", grads, grad_scale);
  const Adam adam{lr, beta1, beta2, shrink, eps, 0, maximize};
  adam_steps("_fused_adamw_", adam, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs,
             state_steps, amsgrad);
}

void fused_adagrad_cpu(TensorList self, TensorList grads, TensorList state_sums,
                       TensorList state_steps, double lr, double lr_decay, double weight_decay,
                       double eps, bool maximize, const Tensor& grad_scale,
                       const Tensor& found_inf) {
  if (is_skipped(found_inf)) return;
  check(state_steps.size() == self.size(),
        "_fused_adagrad_: expected one step for each parameter, got ", state_steps.size(), " for ",
        self.size());
  unscale("_fused_adagrad_", grads, grad_scale);
  for (size_t i = 0; i < self.size(); ++i) {
    const double factor = lr / (1 + (number_of(state_steps[i]) - 1) * lr_decay);
    const auto all = [&]<typename T>(const std::array<T*, 3>& memory, int64_t begin, int64_t end) {
      using Acc = accumulate_t<T>;
      const Acc rate = static_cast<Acc>(factor), epsilon = static_cast<Acc>(eps);
      const Gradient<Acc> gradient(weight_decay, maximize);
      T *p = memory[0], *sum = memory[2];
      const T* g = memory[1];
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) {
        const Acc x = static_cast<Acc>(p[j]);
        const Acc d = gradient.of(static_cast<Acc>(g[j]), x);
        const Acc total = static_cast<Acc>(sum[j]) + d * d;
        sum[j] = static_cast<T>(total);
        p[j] = static_cast<T>(x - rate * d / (std::sqrt(total) + epsilon));
      }
    };
    each_element<3>("_fused_adagrad_", i, {self, grads, state_sums}, all);
  }
}

}  // namespace flambeau::ops
