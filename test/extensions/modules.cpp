// Layers, optimizers and loaders of C++ for test_modules.py.
#include <torch/extension.h>
#include <torch/torch.h>

#include <sstream>

namespace nn = torch::nn;
namespace optim = torch::optim;
using Tensors = std::vector<std::pair<std::string, torch::Tensor>>;

namespace {

using Make = std::function<nn::Sequential()>;
const std::map<std::string, Make> kLayers = {
    {"Linear", [] { return nn::Sequential(nn::Linear(6, 3)); }},
    {"LinearWithoutBias",
     [] { return nn::Sequential(nn::Linear(nn::LinearOptions(6, 3).bias(false))); }},
    {"Conv1d", [] { return nn::Sequential(nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2))); }},
    {"Conv2d",
     [] {
       return nn::Sequential(
           nn::Conv2d(nn::Conv2dOptions(4, 6, {3, 2}).padding({1, 0}).groups(2).dilation(2)));
     }},
    {"Conv3d", [] { return nn::Sequential(nn::Conv3d(2, 3, 2)); }},
    {"BatchNorm1d", [] { return nn::Sequential(nn::BatchNorm1d(6)); }},
    {"BatchNorm2d",
     [] { return nn::Sequential(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).momentum(0.3))); }},
    {"BatchNormWithoutStatistics",
     [] {
       return nn::Sequential(
           nn::BatchNorm2d(nn::BatchNorm2dOptions(4).affine(false).track_running_stats(false)));
     }},
    {"LayerNorm", [] { return nn::Sequential(nn::LayerNorm(std::vector<int64_t>{6})); }},
    {"GroupNorm", [] { return nn::Sequential(nn::GroupNorm(2, 4)); }},
    {"MaxPool2d", [] { return nn::Sequential(nn::MaxPool2d(2)); }},
    {"AvgPool2d",
     [] { return nn::Sequential(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(1).padding(1))); }},
    {"AdaptiveAvgPool2d", [] { return nn::Sequential(nn::AdaptiveAvgPool2d(2)); }},
    {"Dropout", [] { return nn::Sequential(nn::Dropout(0.4)); }},
    {"Activations",
     [] {
       return nn::Sequential(nn::GELU(), nn::ELU(nn::ELUOptions().alpha(0.5)), nn::SiLU(),
                             nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                             nn::Softplus(), nn::Tanh(), nn::LogSoftmax(1));
     }},
    // One statement per layer: C++ does not say in which order arguments are evaluated, and each
    // layer draws random numbers.
    {"Chain",
     [] {
       nn::Sequential chain;
       chain->push_back(nn::Linear(6, 5));
       chain->push_back(nn::BatchNorm1d(5));
       chain->push_back(nn::ReLU());
       chain->push_back(nn::Linear(5, 2));
       return chain;
     }},
};

nn::Sequential made(const std::string& name, uint64_t seed) {
  torch::manual_seed(seed);
  return kLayers.at(name)();
}
Tensors named(const nn::Module& module) {
  Tensors out;
  for (const auto& item : module.named_parameters()) out.push_back(item.pair());
  for (const auto& item : module.named_buffers()) out.push_back(item.pair());
  return out;
}

// Tensors after construction, the output in training and in evaluation, the gradients' sum, and
// the buffers after it.
std::tuple<Tensors, torch::Tensor, torch::Tensor, Tensors> run(const std::string& name,
                                                               const torch::Tensor& input) {
  nn::Sequential layer = made(name, 3);
  Tensors before;
  for (const auto& [key, value] : named(*layer)) before.emplace_back(key, value.detach().clone());
  torch::manual_seed(4);
  const torch::Tensor trained = layer(input);
  layer->eval();
  return {before, trained, layer(input), named(*layer)};
}

std::unique_ptr<optim::Optimizer> optimizer_of(const std::string& name,
                                               std::vector<torch::Tensor> params) {
  using namespace optim;
  if (name == "SGD") {
    return std::make_unique<SGD>(params,
                                 SGDOptions(0.1).momentum(0.9).weight_decay(0.01).nesterov(true));
  } else if (name == "Adam") {
    return std::make_unique<Adam>(params, AdamOptions(0.1).weight_decay(0.01).amsgrad(true));
  } else if (name == "AdamW") {
    return std::make_unique<AdamW>(params, AdamWOptions(0.1).betas({0.8, 0.9}));
  } else if (name == "RMSprop") {
    return std::make_unique<RMSprop>(params, RMSpropOptions(0.1).momentum(0.5).centered(true));
  }
  return std::make_unique<Adagrad>(
      params, AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5));
}

torch::Tensor minimised(const std::string& name, const torch::Tensor& start, int steps) {
  const torch::Tensor x = start.detach().clone().requires_grad_();
  const auto optimizer = optimizer_of(name, {x});
  optim::StepLR schedule(*optimizer, 2, 0.5);
  for (int i = 0; i < steps; ++i) {
    optimizer->zero_grad();
    (x * x * x * x).sum().backward();
    optimizer->step();
    schedule.step();
  }
  return x.detach();
}

std::vector<torch::Tensor> batches(const torch::Tensor& rows, size_t size, size_t workers,
                                   bool drop_last) {
  namespace data = torch::data;
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      data::datasets::PairDataset(rows, rows).map(data::transforms::Stack<>()),
      data::DataLoaderOptions(size).workers(workers).drop_last(drop_last));
  std::vector<torch::Tensor> out;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& batch : *loader) out.push_back(batch.data);
  }
  return out;
}

struct Failing : torch::data::datasets::Dataset<Failing> {
  torch::data::Example<> get(size_t i) override {
    TORCH_CHECK_INDEX(i < 5, "no example ", i);
    return {torch::ones({1}), torch::ones({1})};
  }
  std::optional<size_t> size() const override { return 8; }
};
int64_t count_until_failure(size_t workers) {
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Failing().map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(2).workers(workers));
  int64_t count = 0;
  for (auto& batch : *loader) count += batch.data.size(0);
  return count;
}

// A copy shares nothing, and what is done to a module reaches all below it.
bool clone_is_apart() {
  nn::Sequential layer = made("Chain", 0);
  const auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(layer->clone());
  layer->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  layer->apply([](nn::Module& m) {
    for (torch::Tensor& p : m.parameters(false)) p.fill_(2);
  });
  const torch::Tensor first = copy->parameters()[0];
  return first.dtype() == torch::kFloat && first.ne(2).sum().item<int64_t>() == first.numel() &&
         layer->parameters()[0].dtype() == torch::kDouble &&
         layer(torch::ones({2, 6}, torch::kDouble)).dtype() == torch::kDouble &&
         layer->buffers()[2].dtype() == torch::kLong && copy->is_training();
}

std::string printed() {
  std::ostringstream out;
  out << nn::Sequential(nn::ReLU(), nn::Sequential(nn::Linear(2, 2)));
  return out.str();
}

void refuse(const std::string& what) {
  nn::Linear layer(2, 2);
  if (what == "twice") layer->register_parameter("weight", torch::ones({1}));
  if (what == "dot") layer->register_buffer("a.b", torch::ones({1}));
  if (what == "empty holder") nn::Linear(nullptr)->parameters();
  if (what == "groups") nn::Conv2d(nn::Conv2dOptions(4, 6, 3).groups(0));
  if (what == "sizes") nn::Conv2d(4, 6, std::vector<int64_t>{1, 2, 3});
  if (what == "rank") nn::BatchNorm2d(3)(torch::ones({2, 3}));
  if (what == "place") nn::Sequential(layer)->ptr(1);
  if (what == "no modules") nn::Sequential()(torch::ones({2}));
  if (what == "rate") optim::SGD(layer->parameters(), optim::SGDOptions(-1));
  if (what == "betas") optim::Adam(layer->parameters(), optim::AdamOptions(1).betas({1.0, 0.5}));
  if (what == "same") optim::SGD({layer->weight, layer->weight}, optim::SGDOptions(1));
  if (what == "nan") optim::SGD(layer->parameters(), optim::SGDOptions(std::nan("")));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("run", &run);
  m.def("minimised", &minimised);
  m.def("batches", &batches);
  m.def("count_until_failure", &count_until_failure);
  m.def("clone_is_apart", &clone_is_apart);
  m.def("printed", &printed);
  m.def("refuse", &refuse);
}
