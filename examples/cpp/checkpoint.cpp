// Train a network on handwritten digits in parts: checkpoint FILE DIGITS EPOCHS. The file has the
// model, the optimizer and the number of epochs, and another call continues where the last one
// ended. read_checkpoint.py reads the file in Python.
#include <filesystem>
#include <iostream>

#include "digits.h"

namespace nn = torch::nn;

struct NetImpl : nn::Module {
  NetImpl() {
    hidden = register_module("hidden", nn::Linear(64, 64));
    norm = register_module("norm", nn::BatchNorm1d(64));
    out = register_module("out", nn::Linear(64, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(nn::functional::relu(norm(hidden(x.flatten(1)))));
  }
  nn::Linear hidden = nullptr, out = nullptr;
  nn::BatchNorm1d norm = nullptr;
};
TORCH_MODULE(Net);

// All that a run needs to continue.
struct Training {
  Net net;
  torch::optim::AdamW optimizer{net->parameters(), torch::optim::AdamWOptions(3e-3)};
  int64_t epochs = 0;

  void save(const std::string& path) const {
    torch::serialize::OutputArchive archive, model, state;
    net->save(model);
    optimizer.save(state);
    archive.write("model", model);
    archive.write("optimizer", state);
    archive.write("epochs", torch::IValue(epochs));
    archive.save_to(path);  // the old file stays until the new one is complete
  }
  void load(const std::string& path) {
    torch::serialize::InputArchive archive, model, state;
    archive.load_from(path);
    archive.read("model", model);
    archive.read("optimizer", state);
    torch::IValue count;
    archive.read("epochs", count);
    net->load(model);
    optimizer.load(state);
    epochs = count.toInt();
  }
};

void train_epoch(Training& training, const Digits& digits) {
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      torch::data::datasets::PairDataset(digits.train_x, digits.train_y)
          .map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions().batch_size(64));
  training.net->train();
  for (auto& batch : *loader) {
    training.optimizer.zero_grad();
    nn::functional::cross_entropy(training.net(batch.data), batch.target).backward();
    training.optimizer.step();
  }
  ++training.epochs;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: checkpoint FILE DIGITS EPOCHS\n";
    return 2;
  }
  const std::string path = argv[1];
  const Digits digits = read(argv[2]);
  torch::manual_seed(0);
  Training training;
  if (std::filesystem::exists(path)) training.load(path);
  for (int i = std::atoi(argv[3]); i > 0; --i) train_epoch(training, digits);
  training.save(path);

  const torch::NoGradGuard no_grad;
  training.net->eval();
  const torch::Tensor right = training.net(digits.test_x).argmax(1).eq(digits.test_y);
  std::cout << "epochs " << training.epochs << " right " << right.sum().item<int64_t>() << '\n';
}
