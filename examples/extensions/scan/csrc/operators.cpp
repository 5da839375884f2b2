// The operators, their derivatives, and what they give on tensors without memory.
#include <torch/library.h>
#include <torch/torch.h>

#include "recurrence.h"
#ifdef WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

namespace recurrence {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename F>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<F>();
}

at::Tensor scan(const at::Tensor& x, const at::Tensor& decay,
                const std::optional<at::Tensor>& initial) {
  static auto op = find<decltype(scan)>("recurrence::scan");
  return op.call(x, decay, initial);
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> scan_backward(
    const at::Tensor& grad, const at::Tensor& decay, const at::Tensor& states,
    const std::optional<at::Tensor>& initial) {
  static auto op = find<decltype(scan_backward)>("recurrence::scan_backward");
  return op.call(grad, decay, states, initial);
}
std::tuple<at::Tensor, at::Tensor> alignment(const at::Tensor& log_probs) {
  static auto op = find<decltype(alignment)>("recurrence::alignment");
  return op.call(log_probs);
}
at::Tensor alignment_backward(const at::Tensor& grad, const at::Tensor& log_probs,
                              const at::Tensor& prefixes) {
  static auto op = find<decltype(alignment_backward)>("recurrence::alignment_backward");
  return op.call(grad, log_probs, prefixes);
}

struct Scan : torch::autograd::Function<Scan> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& decay,
                            const std::optional<at::Tensor>& initial) {
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor states = scan(x, decay, initial);
    ctx->save_for_backward({decay, states, initial.value_or(at::Tensor())});
    return states;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const std::optional<at::Tensor> initial =
        saved[2].defined() ? std::optional<at::Tensor>(saved[2]) : std::nullopt;
    auto [of_x, of_decay, of_initial] = scan_backward(grads[0], saved[0], saved[1], initial);
    return {of_x, of_decay, initial ? of_initial.to(initial->scalar_type()) : at::Tensor()};
  }
};

struct Alignment : torch::autograd::Function<Alignment> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& log_probs) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [score, prefixes] = alignment(log_probs);
    ctx->save_for_backward({log_probs, prefixes});
    ctx->mark_non_differentiable({prefixes});
    return {score, prefixes};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {alignment_backward(grads[0], saved[0], saved[1])};
  }
};

at::Tensor scan_autograd(const at::Tensor& x, const at::Tensor& decay,
                         const std::optional<at::Tensor>& initial) {
  return Scan::apply(x, decay, initial);
}
std::tuple<at::Tensor, at::Tensor> alignment_autograd(const at::Tensor& log_probs) {
  auto results = Alignment::apply(log_probs);
  return {results[0], results[1]};
}

at::Tensor scan_meta(const at::Tensor& x, const at::Tensor& /*decay*/,
                     const std::optional<at::Tensor>& /*initial*/) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> scan_backward_meta(
    const at::Tensor& grad, const at::Tensor& decay, const at::Tensor& /*states*/,
    const std::optional<at::Tensor>& /*initial*/) {
  return {at::empty_like(grad), at::empty_like(grad, grad.options().dtype(decay.scalar_type())),
          at::empty({grad.size(0), grad.size(2)}, grad.options())};
}
std::tuple<at::Tensor, at::Tensor> alignment_meta(const at::Tensor& log_probs) {
  return {at::empty({log_probs.size(0)}, log_probs.options()), at::empty_like(log_probs)};
}
at::Tensor alignment_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& log_probs,
                                   const at::Tensor& /*prefixes*/) {
  return at::empty_like(log_probs, at::MemoryFormat::Contiguous);
}

#ifdef WITH_CUDA
at::Tensor scan_on_device(const at::Tensor& x, const at::Tensor& decay,
                          const std::optional<at::Tensor>& initial) {
  const c10::cuda::OptionalCUDAGuard guard(at::device_of(x));
  return scan_cuda(x, decay, initial);
}
#endif

}  // namespace

TORCH_LIBRARY(recurrence, m) {
  m.def("scan(Tensor x, Tensor decay, Tensor? initial=None) -> Tensor");
  m.def(
      "scan_backward(Tensor grad, Tensor decay, Tensor states, Tensor? initial=None) -> "
      "(Tensor, Tensor, Tensor)");
  m.def("alignment(Tensor log_probs) -> (Tensor, Tensor)");
  m.def("alignment_backward(Tensor grad, Tensor log_probs, Tensor prefixes) -> Tensor");
}
TORCH_LIBRARY_IMPL(recurrence, CPU, m) {
  m.impl("scan", &scan_cpu);
  m.impl("scan_backward", &scan_backward_cpu);
  m.impl("alignment", &alignment_cpu);
  m.impl("alignment_backward", &alignment_backward_cpu);
}
TORCH_LIBRARY_IMPL(recurrence, Meta, m) {
  m.impl("scan", &scan_meta);
  m.impl("scan_backward", &scan_backward_meta);
  m.impl("alignment", &alignment_meta);
  m.impl("alignment_backward", &alignment_backward_meta);
}
TORCH_LIBRARY_IMPL(recurrence, Autograd, m) {
  m.impl("scan", &scan_autograd);
  m.impl("alignment", &alignment_autograd);
}
#ifdef WITH_CUDA
TORCH_LIBRARY_IMPL(recurrence, CUDA, m) { m.impl("scan", &scan_on_device); }
#endif

}  // namespace recurrence
