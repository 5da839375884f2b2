#pragma once
// The file of write_digits.py as tensors; every fifth digit is for tests.
#include <torch/torch.h>

#include <fstream>
#include <iterator>

struct Digits {
  torch::Tensor train_x, train_y, test_x, test_y;
};

inline Digits read(const char* path) {
  std::ifstream file(path);
  std::vector<float> numbers{std::istream_iterator<float>(file), {}};
  TORCH_CHECK(!numbers.empty() && numbers.size() % 65 == 0,
              "digits: expected lines of 65 numbers in ", path);
  const auto count = static_cast<int64_t>(numbers.size()) / 65;
  const torch::Tensor rows = torch::tensor(numbers).view({count, 65});
  const torch::Tensor x = rows.slice(1, 0, 64).div(16).reshape({count, 1, 8, 8});
  const torch::Tensor y = rows.select(1, 64).to(torch::kLong);
  const torch::Tensor is_test = torch::arange(count).remainder(5).eq(0);
  return {x.index({~is_test}), y.index({~is_test}), x.index({is_test}), y.index({is_test})};
}
