// An operator of a program's own: shrink(x) = sign(x) max(|x| - t, 0), with a kernel for the CPU, a
// shape function, and a derivative. Python calls it as ops.examples.shrink. There is no Python
// here.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

torch::Tensor shrink_cpu(const torch::Tensor& self, double threshold) {
  TORCH_CHECK_VALUE(threshold >= 0, "shrink: expected a threshold of 0 or more, got ", threshold);
  const torch::Tensor input = self.contiguous();
  torch::Tensor result = torch::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, input.scalar_type(), "shrink", [&] {
        const scalar_t* in = input.const_data_ptr<scalar_t>();
        scalar_t* out = result.mutable_data_ptr<scalar_t>();
        const auto t = static_cast<scalar_t>(threshold);
        at::parallel_for(0, input.numel(), 32768, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            out[i] = in[i] > t    ? scalar_t(in[i] - t)
                     : in[i] < -t ? scalar_t(in[i] + t)
                                  : scalar_t(0);
            if (in[i] != in[i]) out[i] = in[i];
          }
        });
      });
  return result;
}

torch::Tensor shrink_meta(const torch::Tensor& self, double /*threshold*/) {
  return torch::empty_like(self);
}

// The operator below autograd.
torch::Tensor shrink(const torch::Tensor& self, double threshold) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("examples::shrink", "")
                             .typed<torch::Tensor(const torch::Tensor&, double)>();
  return op.call(self, threshold);
}

struct Shrink : torch::autograd::Function<Shrink> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& self,
                               double threshold) {
    at::AutoDispatchBelowADInplaceOrView below;
    torch::Tensor result = shrink(self, threshold);
    ctx->save_for_backward({result});
    ctx->saved_data["threshold"] = threshold;
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto result = ctx->get_saved_variables()[0];
    return {grads[0] * (result != 0).to(grads[0].scalar_type()), torch::Tensor()};
  }
};

torch::Tensor shrink_autograd(const torch::Tensor& self, double threshold) {
  return Shrink::apply(self, threshold);
}

}  // namespace

TORCH_LIBRARY(examples, m) { m.def("shrink(Tensor self, float threshold=0.5) -> Tensor"); }
TORCH_LIBRARY_IMPL(examples, CPU, m) { m.impl("shrink", &shrink_cpu); }
TORCH_LIBRARY_IMPL(examples, Meta, m) { m.impl("shrink", &shrink_meta); }
TORCH_LIBRARY_IMPL(examples, Autograd, m) { m.impl("shrink", &shrink_autograd); }
