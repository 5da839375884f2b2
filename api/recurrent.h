#pragma once
// torch::nn::RNN, LSTM and GRU over padded and packed sequences, and their single steps. Parameters
// have the names and the initial values of Python's layers.
#include <tuple>

#include "api/layer.h"
#include "api/sequences.h"

namespace flambeau::api {

enum class Nonlinearity { Tanh, ReLU };
inline constexpr Nonlinearity kTanh = Nonlinearity::Tanh, kReLU = Nonlinearity::ReLU;

namespace nn {

enum class Recurrence { RNN, LSTM, GRU };

// What a layer needs to know of its options.
struct RecurrentSettings {
  Recurrence kind;
  int64_t input_size, hidden_size, num_layers, proj_size;
  bool bias, batch_first, bidirectional;
  double dropout;
  Nonlinearity nonlinearity;
};
using NamedExtents = std::vector<std::pair<std::string, std::vector<int64_t>>>;
// Names and sizes of the parameters. ValueError for options that do not fit.
NamedExtents recurrent_parameters(const RecurrentSettings& settings);
// The outputs of the last layer, and the last states of all layers. Without `states` they begin
// with zeros. ValueError or RuntimeError for tensors of other sizes or dtypes.
std::vector<Tensor> run_recurrent(const RecurrentSettings& settings,
                                  const std::vector<Tensor>& weights, const Tensor& input,
                                  std::vector<Tensor> states, bool is_training);
// The same for packed sequences, whose outputs are packed alike. States are those of the batch
// before it was sorted.
std::pair<utils::rnn::PackedSequence, std::vector<Tensor>> run_packed(
    const RecurrentSettings& settings, const std::vector<Tensor>& weights,
    const utils::rnn::PackedSequence& input, std::vector<Tensor> states, bool is_training);
// The same for one step.
NamedExtents cell_parameters(const RecurrentSettings& settings);
std::vector<Tensor> run_cell(const RecurrentSettings& settings, const std::vector<Tensor>& weights,
                             const Tensor& input, std::vector<Tensor> states);

template <Recurrence kind>
class RecurrentOptions {
 public:
  RecurrentOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  auto proj_size(int64_t value) -> RecurrentOptions&
    requires(kind == Recurrence::LSTM)
  {
    proj_size_ = value;
    return *this;
  }
  int64_t proj_size() const noexcept { return proj_size_; }
  auto nonlinearity(Nonlinearity value) -> RecurrentOptions&
    requires(kind == Recurrence::RNN)
  {
    nonlinearity_ = value;
    return *this;
  }
  Nonlinearity nonlinearity() const noexcept { return nonlinearity_; }
  TORCH_ARG(int64_t, input_size);
  TORCH_ARG(int64_t, hidden_size);
  TORCH_ARG(int64_t, num_layers) = 1;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(bool, batch_first) = false;
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(bool, bidirectional) = false;

 public:
  RecurrentSettings settings() const {
    return {kind,  input_size_,  hidden_size_,   num_layers_, proj_size_,
            bias_, batch_first_, bidirectional_, dropout_,    nonlinearity_};
  }

 private:
  int64_t proj_size_ = 0;
  Nonlinearity nonlinearity_ = kTanh;
};
using RNNOptions = RecurrentOptions<Recurrence::RNN>;
using LSTMOptions = RecurrentOptions<Recurrence::LSTM>;
using GRUOptions = RecurrentOptions<Recurrence::GRU>;

template <Recurrence kind>
class RecurrentCellOptions {
 public:
  RecurrentCellOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  auto nonlinearity(Nonlinearity value) -> RecurrentCellOptions&
    requires(kind == Recurrence::RNN)
  {
    nonlinearity_ = value;
    return *this;
  }
  Nonlinearity nonlinearity() const noexcept { return nonlinearity_; }
  TORCH_ARG(int64_t, input_size);
  TORCH_ARG(int64_t, hidden_size);
  TORCH_ARG(bool, bias) = true;

 public:
  RecurrentSettings settings() const {
    return {kind, input_size_, hidden_size_, 1, 0, bias_, false, false, 0, nonlinearity_};
  }

 private:
  Nonlinearity nonlinearity_ = kTanh;
};
using RNNCellOptions = RecurrentCellOptions<Recurrence::RNN>;
using LSTMCellOptions = RecurrentCellOptions<Recurrence::LSTM>;
using GRUCellOptions = RecurrentCellOptions<Recurrence::GRU>;

// Registers the parameters that `extents` names, and draws them from U(-1 / sqrt(hidden_size),
// 1 / sqrt(hidden_size)).
template <typename Derived, typename Options, NamedExtents (*extents)(const RecurrentSettings&)>
class RecurrentBase : public Cloneable<Derived> {
 public:
  RecurrentBase(const char* name, const Options& options)
      : Cloneable<Derived>(name), options(options) {
    RecurrentBase::reset();
  }
  void reset() override {
    for (const auto& [name, sizes] : extents(options.settings()))
      this->register_parameter(name, api::empty(sizes));
    reset_parameters();
  }
  void reset_parameters() {
    const std::vector<Tensor> weights = this->parameters(false);
    fill::uniform_of_width(weights, options.hidden_size());
  }
  Options options;
};

using StatePair = std::tuple<Tensor, Tensor>;
inline std::vector<Tensor> listed(const std::optional<StatePair>& states) {
  if (!states) return {};
  return {std::get<0>(*states), std::get<1>(*states)};
}
inline std::vector<Tensor> listed(const Tensor& state) {
  return state.defined() ? std::vector<Tensor>{state} : std::vector<Tensor>();
}

template <typename Derived, typename Options>
class RecurrentImpl : public RecurrentBase<Derived, Options, recurrent_parameters> {
 public:
  using RecurrentBase<Derived, Options, recurrent_parameters>::RecurrentBase;
  // No effect: there is no packed form of the weights.
  void flatten_parameters() {}
  std::vector<Tensor> all_weights() const { return this->parameters(false); }

 protected:
  std::vector<Tensor> run(const Tensor& input, std::vector<Tensor> states) const {
    return run_recurrent(this->options.settings(), this->parameters(false), input,
                         std::move(states), this->is_training());
  }
  auto run(const utils::rnn::PackedSequence& input, std::vector<Tensor> states) const {
    return run_packed(this->options.settings(), this->parameters(false), input, std::move(states),
                      this->is_training());
  }
};
template <typename Derived, typename Options>
class RecurrentCellImpl : public RecurrentBase<Derived, Options, cell_parameters> {
 public:
  using RecurrentBase<Derived, Options, cell_parameters>::RecurrentBase;

 protected:
  std::vector<Tensor> run(const Tensor& input, std::vector<Tensor> states) const {
    return run_cell(this->options.settings(), this->parameters(false), input, std::move(states));
  }
};

// Returns the outputs and the last states (h, c).
class LSTMImpl : public RecurrentImpl<LSTMImpl, LSTMOptions> {
 public:
  LSTMImpl(int64_t input_size, int64_t hidden_size)
      : LSTMImpl(LSTMOptions(input_size, hidden_size)) {}
  explicit LSTMImpl(const LSTMOptions& options) : RecurrentImpl("torch::nn::LSTM", options) {}
  std::tuple<Tensor, StatePair> forward(const Tensor& input,
                                        const std::optional<StatePair>& hx = {}) const {
    const std::vector<Tensor> found = run(input, listed(hx));
    return {found[0], {found[1], found[2]}};
  }
  std::tuple<utils::rnn::PackedSequence, StatePair> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input,
      const std::optional<StatePair>& hx = {}) const {
    const auto [output, states] = run(packed_input, listed(hx));
    return {output, {states[0], states[1]}};
  }
};
TORCH_MODULE(LSTM);

class GRUImpl : public RecurrentImpl<GRUImpl, GRUOptions> {
 public:
  GRUImpl(int64_t input_size, int64_t hidden_size) : GRUImpl(GRUOptions(input_size, hidden_size)) {}
  explicit GRUImpl(const GRUOptions& options) : RecurrentImpl("torch::nn::GRU", options) {}
  StatePair forward(const Tensor& input, const Tensor& hx = {}) const {
    const std::vector<Tensor> found = run(input, listed(hx));
    return {found[0], found[1]};
  }
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, const Tensor& hx = {}) const {
    const auto [output, states] = run(packed_input, listed(hx));
    return {output, states[0]};
  }
};
TORCH_MODULE(GRU);

class RNNImpl : public RecurrentImpl<RNNImpl, RNNOptions> {
 public:
  RNNImpl(int64_t input_size, int64_t hidden_size) : RNNImpl(RNNOptions(input_size, hidden_size)) {}
  explicit RNNImpl(const RNNOptions& options) : RecurrentImpl("torch::nn::RNN", options) {}
  StatePair forward(const Tensor& input, const Tensor& hx = {}) const {
    const std::vector<Tensor> found = run(input, listed(hx));
    return {found[0], found[1]};
  }
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, const Tensor& hx = {}) const {
    const auto [output, states] = run(packed_input, listed(hx));
    return {output, states[0]};
  }
};
TORCH_MODULE(RNN);

class LSTMCellImpl : public RecurrentCellImpl<LSTMCellImpl, LSTMCellOptions> {
 public:
  LSTMCellImpl(int64_t input_size, int64_t hidden_size)
      : LSTMCellImpl(LSTMCellOptions(input_size, hidden_size)) {}
  explicit LSTMCellImpl(const LSTMCellOptions& options)
      : RecurrentCellImpl("torch::nn::LSTMCell", options) {}
  StatePair forward(const Tensor& input, const std::optional<StatePair>& hx = {}) const {
    const std::vector<Tensor> found = run(input, listed(hx));
    return {found[0], found[1]};
  }
};
TORCH_MODULE(LSTMCell);

class GRUCellImpl : public RecurrentCellImpl<GRUCellImpl, GRUCellOptions> {
 public:
  GRUCellImpl(int64_t input_size, int64_t hidden_size)
      : GRUCellImpl(GRUCellOptions(input_size, hidden_size)) {}
  explicit GRUCellImpl(const GRUCellOptions& options)
      : RecurrentCellImpl("torch::nn::GRUCell", options) {}
  Tensor forward(const Tensor& input, const Tensor& hx = {}) const {
    return run(input, listed(hx))[0];
  }
};
TORCH_MODULE(GRUCell);

class RNNCellImpl : public RecurrentCellImpl<RNNCellImpl, RNNCellOptions> {
 public:
  RNNCellImpl(int64_t input_size, int64_t hidden_size)
      : RNNCellImpl(RNNCellOptions(input_size, hidden_size)) {}
  explicit RNNCellImpl(const RNNCellOptions& options)
      : RecurrentCellImpl("torch::nn::RNNCell", options) {}
  Tensor forward(const Tensor& input, const Tensor& hx = {}) const {
    return run(input, listed(hx))[0];
  }
};
TORCH_MODULE(RNNCell);

}  // namespace nn
}  // namespace flambeau::api
