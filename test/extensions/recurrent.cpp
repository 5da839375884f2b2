// Recurrent layers of C++ for test_recurrent.py.
#include <torch/extension.h>
#include <torch/nn/utils/rnn.h>
#include <torch/torch.h>

#include <sstream>

namespace nn = torch::nn;
namespace rnn = torch::nn::utils::rnn;
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

template <typename Options>
Options configured(Options options, const py::dict& given) {
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
  return options;
}

template <typename Layer, typename Options>
auto run(const Options& plain, const py::dict& given, const torch::Tensor& x,
         const Tensors& states) {
  const Options options = configured(plain, given);
  torch::manual_seed(3);
  Layer layer(options), other(options);
  if (given.contains("double")) {
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

using Packed = rnn::PackedSequence;
using Order = std::optional<torch::Tensor>;
using Fields = std::tuple<torch::Tensor, torch::Tensor, Order, Order>;

Order asked(const torch::Tensor& order) { return order.defined() ? Order(order) : std::nullopt; }
Fields fields(const Packed& p) {
  return {p.data(), p.batch_sizes(), asked(p.sorted_indices()), asked(p.unsorted_indices())};
}
Packed packed(const Fields& f) {
  return Packed(std::get<0>(f), std::get<1>(f), std::get<2>(f).value_or(torch::Tensor()),
                std::get<3>(f).value_or(torch::Tensor()));
}

// The parameters, the packed output and the last states.
template <typename Layer, typename Options>
std::tuple<Named, Fields, Tensors> run(const Options& plain, const py::dict& given,
                                       const Packed& input, const Tensors& states) {
  torch::manual_seed(3);
  Layer layer(configured(plain, given));
  if (given.contains("double")) layer->to(torch::kFloat64);
  Named parameters;
  for (const auto& item : layer->named_parameters())
    parameters.push_back({item.key(), item.value()});
  torch::manual_seed(4);
  const auto [output, last] = [&] {
    if constexpr (std::is_same_v<Layer, nn::LSTM>) {
      if (states.empty()) return layer->forward_with_packed_input(input);
      return layer->forward_with_packed_input(input, std::make_tuple(states.at(0), states.at(1)));
    } else {
      if (states.empty()) return layer->forward_with_packed_input(input);
      return layer->forward_with_packed_input(input, states.at(0));
    }
  }();
  return {parameters, fields(output), flat(last)};
}

std::tuple<Named, Fields, Tensors> run_packed(const std::string& name, int64_t width,
                                              int64_t hidden, const py::dict& given,
                                              const Fields& input, const Tensors& states) {
  if (name == "LSTM")
    return run<nn::LSTM>(nn::LSTMOptions(width, hidden), given, packed(input), states);
  if (name == "GRU")
    return run<nn::GRU>(nn::GRUOptions(width, hidden), given, packed(input), states);
  return run<nn::RNN>(nn::RNNOptions(width, hidden), given, packed(input), states);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("run", &run_named);
  m.def("run_packed", &run_packed);
  m.def("invert_permutation", &rnn::invert_permutation);
  m.def("fields", [](const Fields& f) { return fields(packed(f)); });
  m.def("to", [](const Fields& f, torch::ScalarType type) { return fields(packed(f).to(type)); });
  m.def("pad_packed",
        [](const Fields& f, bool batch_first, double value, std::optional<int64_t> total_length) {
          return rnn::pad_packed_sequence(packed(f), batch_first, value, total_length);
        });
  m.def("pack_padded", [](const torch::Tensor& x, const torch::Tensor& lengths, bool batch_first,
                          bool enforce_sorted) {
    return fields(rnn::pack_padded_sequence(x, lengths, batch_first, enforce_sorted));
  });
  m.def("pack", [](const Tensors& sequences, bool enforce_sorted) {
    return fields(rnn::pack_sequence(sequences, enforce_sorted));
  });
  m.def("pad",
        [](const Tensors& sequences, bool batch_first, double value, const std::string& side) {
          return rnn::pad_sequence(sequences, batch_first, value, side);
        });
}
