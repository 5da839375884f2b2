// Recurrent layers of C++ for test_recurrent.py.
#include <torch/extension.h>
#include <torch/torch.h>

#include <sstream>

namespace nn = torch::nn;
using Tensors = std::vector<torch::Tensor>;
using Named = std::vector<std::pair<std::string, torch::Tensor>>;

namespace {

Tensors flat(const torch::Tensor& x) { return {x}; }
Tensors flat(const std::tuple<torch::Tensor, torch::Tensor>& x) {
  return {std::get<0>(x), std::get<1>(x)};
}
Tensors flat(const std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>& x) {
  Tensors out{std::get<0>(x)};
  for (const auto& one : flat(std::get<1>(x))) out.push_back(one);
  return out;
}

template <typename Layer>
auto call(Layer& layer, const torch::Tensor& x, const Tensors& states) {
  if constexpr (std::is_same_v<Layer, nn::LSTM> || std::is_same_v<Layer, nn::LSTMCell>) {
    return states.empty() ? layer(x) : layer(x, std::make_tuple(states.at(0), states.at(1)));
  } else {
    return states.empty() ? layer(x) : layer(x, states.at(0));
  }
}

// The parameters, the results, and those of a copy that was saved and loaded.
template <typename Layer>
std::tuple<Named, Tensors, Tensors> ran(Layer layer, Layer other, const torch::Tensor& x,
                                        const Tensors& states, uint64_t seed) {
  Named parameters;
  for (const auto& item : layer->named_parameters())
    parameters.push_back({item.key(), item.value()});
  std::stringstream file;
  torch::save(layer, file);
  torch::load(other, file);
  auto copy = std::dynamic_pointer_cast<typename Layer::Impl>(other->clone());
  Layer again(copy);
  torch::manual_seed(seed);
  const Tensors results = flat(call(layer, x, states));
  torch::manual_seed(seed);
  return {parameters, results, flat(call(again, x, states))};
}

template <typename Layer, typename Options>
auto run(Options options, const py::dict& given, const torch::Tensor& x, const Tensors& states) {
  const auto has = [&](const char* name) { return given.contains(name); };
  if (has("bias")) options.bias(given["bias"].cast<bool>());
  if constexpr (requires { options.nonlinearity(torch::kReLU); }) {
    if (has("nonlinearity"))
      options.nonlinearity(given["nonlinearity"].cast<std::string>() == "relu" ? torch::kReLU
                                                                               : torch::kTanh);
  }
  if constexpr (requires { options.num_layers(1); }) {
    if (has("num_layers")) options.num_layers(given["num_layers"].cast<int64_t>());
    if (has("batch_first")) options.batch_first(given["batch_first"].cast<bool>());
    if (has("dropout")) options.dropout(given["dropout"].cast<double>());
    if (has("bidirectional")) options.bidirectional(given["bidirectional"].cast<bool>());
  }
  if constexpr (requires { options.proj_size(1); }) {
    if (has("proj_size")) options.proj_size(given["proj_size"].cast<int64_t>());
  }
  torch::manual_seed(3);
  Layer layer(options), other(options);
  if (has("double")) {
    layer->to(torch::kFloat64);
    other->to(torch::kFloat64);
  }
  return ran(layer, other, x, states, 4);
}

std::tuple<Named, Tensors, Tensors> run_named(const std::string& name, int64_t input,
                                              int64_t hidden, const py::dict& given,
                                              const torch::Tensor& x, const Tensors& states) {
  if (name == "LSTM") return run<nn::LSTM>(nn::LSTMOptions(input, hidden), given, x, states);
  if (name == "GRU") return run<nn::GRU>(nn::GRUOptions(input, hidden), given, x, states);
  if (name == "RNN") return run<nn::RNN>(nn::RNNOptions(input, hidden), given, x, states);
  if (name == "LSTMCell")
    return run<nn::LSTMCell>(nn::LSTMCellOptions(input, hidden), given, x, states);
  if (name == "GRUCell")
    return run<nn::GRUCell>(nn::GRUCellOptions(input, hidden), given, x, states);
  return run<nn::RNNCell>(nn::RNNCellOptions(input, hidden), given, x, states);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run_named); }
