// The functions of this package, by the file that defines them.
#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <tuple>

namespace recurrence {

// scan_cpu.cpp: h[t] = decay[t] h[t - 1] + x[t] along dimension 1, with h[-1] = initial or 0.
at::Tensor scan_cpu(const at::Tensor& x, const at::Tensor& decay,
                    const std::optional<at::Tensor>& initial);
// Gradients with respect to x, decay and initial, by the recursion from the end.
std::tuple<at::Tensor, at::Tensor, at::Tensor> scan_backward_cpu(
    const at::Tensor& grad, const at::Tensor& decay, const at::Tensor& states,
    const std::optional<at::Tensor>& initial);

// alignment_cpu.cpp: the logarithm of the sum over monotonic alignments of the product of
// probabilities, and the same for every prefix.
std::tuple<at::Tensor, at::Tensor> alignment_cpu(const at::Tensor& log_probs);
at::Tensor alignment_backward_cpu(const at::Tensor& grad, const at::Tensor& log_probs,
                                  const at::Tensor& prefixes);

#ifdef WITH_CUDA
at::Tensor scan_cuda(const at::Tensor& x, const at::Tensor& decay,
                     const std::optional<at::Tensor>& initial);
#endif

}  // namespace recurrence
