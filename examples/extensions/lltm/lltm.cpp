// A recurrent cell without a forget gate, with its derivative written by hand:
//   [i, o, g] = [h, x] W^T + b;   c' = c + sigmoid(i) elu(g);   h' = sigmoid(o) tanh(c')
// The cell is the "long long-term memory" of PyTorch's tutorial on C++ extensions.
#include <torch/extension.h>

#include <vector>

namespace {

// elu(z) = z for z > 0, e^z - 1 otherwise.
torch::Tensor elu_slope(const torch::Tensor& z) {
  return torch::where(z > 0, torch::ones_like(z), z.exp());
}

void check_inputs(const torch::Tensor& input, const torch::Tensor& weights, const torch::Tensor& h,
                  const torch::Tensor& c) {
  TORCH_CHECK(input.dim() == 2, "lltm: expected an input of 2 dimensions, got ", input.dim());
  TORCH_CHECK(h.sizes() == c.sizes(), "lltm: expected states of one shape, got ", h.sizes(),
              " and ", c.sizes());
  TORCH_CHECK_VALUE(weights.size(0) == 3 * h.size(1), "lltm: expected ", 3 * h.size(1),
                    " rows of weights, got ", weights.size(0));
}

}  // namespace

// Returns h', c' and what backward needs.
std::vector<torch::Tensor> forward(torch::Tensor input, torch::Tensor weights, torch::Tensor bias,
                                   torch::Tensor h, torch::Tensor c) {
  check_inputs(input, weights, h, c);
  const auto joined = torch::cat({h, input}, /*dim=*/1);
  const auto gates = torch::addmm(bias, joined, weights.transpose(0, 1)).chunk(3, /*dim=*/1);
  const auto in = torch::sigmoid(gates[0]);
  const auto out = torch::sigmoid(gates[1]);
  const auto candidate = torch::elu(gates[2], /*alpha=*/1.0);
  const auto new_c = c + candidate * in;
  const auto new_h = torch::tanh(new_c) * out;
  return {new_h, new_c, in, out, candidate, gates[2], joined};
}

// Gradients of input, weights, bias, h and c.
std::vector<torch::Tensor> backward(torch::Tensor grad_h, torch::Tensor grad_c, torch::Tensor new_c,
                                    torch::Tensor in, torch::Tensor out, torch::Tensor candidate,
                                    torch::Tensor raw, torch::Tensor joined,
                                    torch::Tensor weights) {
  const auto squashed = new_c.tanh();
  const auto grad_out = squashed * grad_h * out * (1 - out);
  const auto grad_new_c = grad_c + out * grad_h * (1 - squashed * squashed);
  const auto grad_in = candidate * grad_new_c * in * (1 - in);
  const auto grad_candidate = in * grad_new_c * elu_slope(raw);

  const auto grad_gates = torch::cat({grad_in, grad_out, grad_candidate}, /*dim=*/1);
  const auto grad_weights = grad_gates.t().mm(joined);
  const auto grad_bias = grad_gates.sum(/*dim=*/0, /*keepdim=*/true);
  const auto grad_joined = grad_gates.mm(weights);
  const auto state = grad_h.size(1);
  return {grad_joined.slice(/*dim=*/1, state), grad_weights, grad_bias,
          grad_joined.slice(/*dim=*/1, 0, state), grad_new_c};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "One step of the cell");
  m.def("backward", &backward, "The gradients of one step");
}
