#include <torch/torch.h>

#include <iostream>

int main() {
  const torch::Tensor x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  (x * x).sum().backward();
  std::cout << x.grad().sum().item<double>() << '\n';
}
