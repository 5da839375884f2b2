#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "recurrence.h"

namespace recurrence {
namespace {

void check_inputs(const at::Tensor& x, const at::Tensor& decay,
                  const std::optional<at::Tensor>& initial) {
  TORCH_CHECK(x.dim() == 3, "scan: expected x of shape (batch, length, channels), got ", x.sizes());
  TORCH_CHECK(decay.sizes() == x.sizes(), "scan: expected decay of the shape of x, ", x.sizes(),
              ", got ", decay.sizes());
  TORCH_CHECK(!initial || (initial->dim() == 2 && initial->size(0) == x.size(0) &&
                           initial->size(1) == x.size(2)),
              "scan: expected an initial state of shape (batch, channels)");
}

// Half types are added in float, where their sums round once per result.
at::ScalarType state_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

}  // namespace

at::Tensor scan_cpu(const at::Tensor& x, const at::Tensor& decay,
                    const std::optional<at::Tensor>& initial) {
  check_inputs(x, decay, initial);
  const at::Tensor input = x.contiguous(), factor = decay.to(x.scalar_type()).contiguous();
  const int64_t batch = x.size(0), length = x.size(1), channels = x.size(2);
  at::Tensor states = at::empty_like(input, at::MemoryFormat::Contiguous);
  const at::TensorOptions wide = x.options().dtype(state_type(x.scalar_type()));
  const at::Tensor start = initial ? initial->to(wide).clone() : at::zeros({batch, channels}, wide);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scan", [&] {
    using state_t = at::opmath_type<scalar_t>;
    const auto* in = input.const_data_ptr<scalar_t>();
    const auto* by = factor.const_data_ptr<scalar_t>();
    auto* out = states.mutable_data_ptr<scalar_t>();
    auto* state = start.data_ptr<state_t>();
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        state_t* const h = state + b * channels;
        for (int64_t t = 0; t < length; ++t) {
          const int64_t row = (b * length + t) * channels;
          for (int64_t c = 0; c < channels; ++c) {
            h[c] = static_cast<state_t>(by[row + c]) * h[c] + static_cast<state_t>(in[row + c]);
            out[row + c] = static_cast<scalar_t>(h[c]);
          }
        }
      }
    });
  });
  return states;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> scan_backward_cpu(
    const at::Tensor& grad, const at::Tensor& decay, const at::Tensor& states,
    const std::optional<at::Tensor>& initial) {
  const int64_t batch = grad.size(0), length = grad.size(1), channels = grad.size(2);
  const at::Tensor of_result = grad.contiguous();
  const at::Tensor factor = decay.to(grad.scalar_type()).contiguous(), h = states.contiguous();
  at::Tensor grad_x = at::empty_like(of_result), grad_decay = at::empty_like(of_result);
  const at::Tensor start = initial ? initial->to(grad.scalar_type()).contiguous()
                                   : at::zeros({batch, channels}, grad.options());
  at::Tensor grad_initial = at::zeros({batch, channels}, grad.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, grad.scalar_type(), "scan", [&] {
    using state_t = at::opmath_type<scalar_t>;
    const auto g = of_result.accessor<scalar_t, 3>(), by = factor.accessor<scalar_t, 3>();
    const auto state = h.accessor<scalar_t, 3>();
    const auto first = start.accessor<scalar_t, 2>();
    auto to_x = grad_x.accessor<scalar_t, 3>(), to_decay = grad_decay.accessor<scalar_t, 3>();
    auto to_initial = grad_initial.accessor<scalar_t, 2>();
    at::parallel_for(0, batch * channels, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / channels, c = i % channels;
        state_t running = 0;
        for (int64_t t = length - 1; t >= 0; --t) {
          running += static_cast<state_t>(g[b][t][c]);
          const scalar_t before = t > 0 ? state[b][t - 1][c] : first[b][c];
          to_x[b][t][c] = static_cast<scalar_t>(running);
          to_decay[b][t][c] = static_cast<scalar_t>(running * static_cast<state_t>(before));
          running *= static_cast<state_t>(by[b][t][c]);
        }
        to_initial[b][c] = static_cast<scalar_t>(running);
      }
    });
  });
  return {grad_x, grad_decay.to(decay.scalar_type()), grad_initial};
}

}  // namespace recurrence
