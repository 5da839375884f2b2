// Exponential moving average along the last dimension on CPU, and its gradient.
//   result[0] = self[0],  result[i] = decay * result[i - 1] + (1 - decay) * self[i]
// Accumulates in: accumulate_t<T>, which is float for half types.
// NaN, infinity: they stay in all later elements. Empty tensors have empty results.
// Error: 4 eps of the largest element of a row, tested against NumPy.
// Source: by definition.
#include <api/kernels.h>

namespace flambeau::ops {
namespace {

// Calls row(in, out, size) for each row of a tensor.
template <typename Row>
void each_row(const char* op, const Tensor& self, Tensor& out, const Row& row) {
  if (self.numel() == 0) return;
  c10::dispatch_floating(self.dtype(), op, [&]<typename T>() {
    const Fibers<const T> from(self, -1);
    const Fibers<T> to(out, -1);
    parallel_for(0, from.count(), from.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) row(from[i], to[i]);
    });
  });
}

}  // namespace

void smooth_cpu(const Tensor& self, double decay, Tensor& out) {
  each_row("smooth", self, out, [decay]<typename T>(Fiber<const T> in, Fiber<T> to) {
    using Acc = c10::accumulate_t<T>;
    const Acc kept = static_cast<Acc>(decay);
    Acc average = static_cast<Acc>(in[0]);
    to[0] = in[0];
    for (int64_t i = 1; i < in.size; ++i) {
      average = kept * average + (Acc(1) - kept) * static_cast<Acc>(in[i]);
      to[i] = static_cast<T>(average);
    }
  });
}

void smooth_backward_cpu(const Tensor& grad_output, double decay, Tensor& out) {
  each_row("smooth", grad_output, out, [decay]<typename T>(Fiber<const T> in, Fiber<T> to) {
    using Acc = c10::accumulate_t<T>;
    const Acc kept = static_cast<Acc>(decay);
    Acc sum = 0;
    for (int64_t i = in.size; i-- > 0;) {
      sum = kept * sum + static_cast<Acc>(in[i]);
      to[i] = static_cast<T>(i > 0 ? (Acc(1) - kept) * sum : sum);
    }
  });
}

}  // namespace flambeau::ops
