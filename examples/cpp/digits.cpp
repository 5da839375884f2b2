// Train two networks on handwritten digits: digits FILE [EPOCHS]. write_digits.py writes the file.
#include "digits.h"

#include <iostream>

namespace nn = torch::nn;

// 64 pixels to 10 scores.
struct MlpImpl : nn::Cloneable<MlpImpl> {
  MlpImpl() : Cloneable("Mlp") { reset(); }
  void reset() override {
    hidden = register_module("hidden", nn::Linear(64, 128));
    drop = register_module("drop", nn::Dropout(nn::DropoutOptions().p(0.1)));
    out = register_module("out", nn::Linear(128, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(drop(nn::functional::relu(hidden(x.flatten(1)))));
  }
  nn::Linear hidden = nullptr, out = nullptr;
  nn::Dropout drop = nullptr;
};
TORCH_MODULE(Mlp);

// The network of examples/digits.py.
nn::Sequential convolutional() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::BatchNorm2d(16),
                        nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)),
                        nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(32 * 4 * 4, 64), nn::ReLU(),
                        nn::Dropout(nn::DropoutOptions().p(0.25)), nn::Linear(64, 10));
}

template <typename Model>
double train(Model& model, const Digits& digits, int epochs) {
  auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      torch::data::datasets::PairDataset(digits.train_x, digits.train_y)
          .map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions().batch_size(32).workers(1));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/4, /*gamma=*/0.4);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    model->train();
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      optimizer.step();
    }
    schedule.step();
  }
  const torch::NoGradGuard no_grad;
  model->eval();
  return model(digits.test_x)
      .argmax(1)
      .eq(digits.test_y)
      .to(torch::kFloat)
      .mean()
      .template item<double>();
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: digits FILE [EPOCHS]\n";
    return 2;
  }
  const Digits digits = read(argv[1]);
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 12;
  torch::manual_seed(0);
  Mlp mlp;
  std::cout << mlp << "\nmlp " << train(mlp, digits, epochs) << std::endl;
  nn::Sequential network = convolutional();
  std::cout << "convolutional " << train(network, digits, epochs) << '\n';
}
