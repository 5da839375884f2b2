// Sums are in the order of Python's layers (python/flambeau/_operators/recurrent.py), so that equal
// weights give equal bits.
#include "api/recurrent.h"

#include <algorithm>
#include <cmath>

#include "torchgen_out/aten/rnn_ops.h"

namespace flambeau::api::nn {

namespace {

using Tensors = std::vector<Tensor>;

const char* name_of(Recurrence kind) {
  static constexpr const char* kNames[] = {"RNN", "LSTM", "GRU"};
  return kNames[static_cast<size_t>(kind)];
}
int64_t gates_of(Recurrence kind) {
  static constexpr int64_t kGates[] = {1, 4, 3};
  return kGates[static_cast<size_t>(kind)];
}
size_t states_of(Recurrence kind) { return kind == Recurrence::LSTM ? 2 : 1; }
int64_t directions_of(const RecurrentSettings& s) { return s.bidirectional ? 2 : 1; }
int64_t width_of(const RecurrentSettings& s) { return s.proj_size ? s.proj_size : s.hidden_size; }

void check_settings(const RecurrentSettings& s) {
  const char* const name = name_of(s.kind);
  for (const auto& [what, size] :
       {std::pair("input_size", s.input_size), std::pair("hidden_size", s.hidden_size),
        std::pair("num_layers", s.num_layers)}) {
    check_value(size >= 1, name, ": expected ", what, " >= 1, got ", size);
  }
  check_value(s.dropout >= 0 && s.dropout <= 1, name,
              ": expected dropout to be a probability from 0 to 1, got ", s.dropout);
  check_value(s.proj_size >= 0 && s.proj_size < s.hidden_size, name,
              ": expected 0 <= proj_size < hidden_size=", s.hidden_size, ", got ", s.proj_size);
}

// The parameters of one layer in one direction; undefined ones do not exist.
struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
};
Weights weights_of(const RecurrentSettings& s, const Tensors& all, size_t at) {
  const size_t count = 2 + (s.bias ? 2 : 0) + (s.proj_size ? 1 : 0);
  const auto first = all.begin() + static_cast<ptrdiff_t>(at * count);
  Weights w{first[0], first[1], {}, {}, {}};
  if (s.bias) {
    w.b_ih = first[2];
    w.b_hh = first[3];
  }
  if (s.proj_size) w.w_hr = first[static_cast<ptrdiff_t>(count) - 1];
  return w;
}

Tensor gates_with(const Tensor& gates, const Tensor& h, const Tensor& w, const Tensor& b) {
  return api::addmm(b.defined() ? gates + b : gates, h, w);
}

Tensors gru_step(const Tensor& gates, const Tensor& h, const Tensor& w, const Tensor& b) {
  const Tensor hidden = b.defined() ? gates_with(b, h, w, {}) : api::matmul(h, w);
  const int64_t width = h.size(-1);
  const Tensors parts =
      (gates.narrow(-1, 0, 2 * width) + hidden.narrow(-1, 0, 2 * width)).chunk(2, -1);
  const Tensor content = ops::_gru_content::call(parts[0], gates.narrow(-1, 2 * width, width),
                                                 hidden.narrow(-1, 2 * width, width));
  return {ops::_gru_state::call(parts[1], content, h)};
}

Tensors lstm_step(const Tensor& gates, const Tensors& state, const Tensor& w, const Tensor& b) {
  const Tensors parts = gates_with(gates, state[0], w, b).chunk(4, -1);
  const Tensor c = ops::_lstm_state::call(parts[0], parts[1], parts[2], state[1]);
  return {ops::_lstm_output::call(parts[3], c), c};
}

// `w` is transposed.
Tensors step(const RecurrentSettings& s, const Tensor& gates, const Tensors& state, const Tensor& w,
             const Tensor& b) {
  switch (s.kind) {
    case Recurrence::LSTM:
      return lstm_step(gates, state, w, b);
    case Recurrence::GRU:
      return gru_step(gates, state[0], w, b);
    case Recurrence::RNN:
      break;
  }
  const Tensor sum = gates_with(gates, state[0], w, b);
  return {s.nonlinearity == kTanh ? sum.tanh() : sum.relu()};
}

// All steps of an LSTM without projection as one operator, which has kernels of these dtypes.
bool is_one_operator(const RecurrentSettings& s, const Tensor& gates) {
  return s.kind == Recurrence::LSTM && !s.proj_size && gates.size(0) > 0 &&
         (gates.dtype() == c10::ScalarType::Float32 || gates.dtype() == c10::ScalarType::Float64);
}
Tensors lstm_steps(const Tensor& gates, const Tensors& state, const Tensor& w, bool reverse) {
  const bool with_gates =
      GradMode::is_enabled() && (gates.requires_grad() || state[0].requires_grad() ||
                                 state[1].requires_grad() || w.requires_grad());
  const auto [outputs, all_cells, unused] =
      ops::_lstm::call(gates, state[0], state[1], w, reverse, with_gates);
  const Tensor output = outputs, cells = all_cells;
  const int64_t last = reverse ? 0 : -1;
  return {output, output.select(0, last), cells.select(0, last)};
}

// The states of the `rows` sequences that have a step: shorter ones end, or begin where time runs
// backwards.
Tensors resized(Tensors state, const Tensors& initial, int64_t rows, std::vector<Tensors>& ended) {
  const int64_t have = state[0].size(0);
  if (rows == have) return state;
  if (rows < have) ended.emplace_back();
  for (size_t i = 0; i < state.size(); ++i) {
    if (rows < have) {
      ended.back().push_back(state[i].narrow(0, rows, have - rows));
      state[i] = state[i].narrow(0, 0, rows);
    } else {
      state[i] = api::cat({state[i], initial[i].narrow(0, have, rows - have)}, 0);
    }
  }
  return state;
}

// The last states of the whole batch, the longest sequence first.
Tensors with_ended(Tensors state, const std::vector<Tensors>& ended) {
  if (ended.empty()) return state;
  for (size_t i = 0; i < state.size(); ++i) {
    Tensors parts{state[i]};
    for (auto one = ended.rbegin(); one != ended.rend(); ++one) parts.push_back((*one)[i]);
    state[i] = api::cat(parts, 0);
  }
  return state;
}

// One layer in one direction over (time, batch, features), or over packed rows with `sizes` per
// step, which are empty for padded ones: the outputs, then the last states.
Tensors run_direction(const RecurrentSettings& s, const Tensor& x, IntArrayRef sizes,
                      const Tensors& initial, Weights w, bool reverse) {
  if (w.b_ih.defined() && s.kind != Recurrence::GRU) {  // whose reset gate scales the hidden bias
    w.b_ih = w.b_ih + w.b_hh;
    w.b_hh = {};
  }
  const bool is_packed = !sizes.empty();
  const Tensor gates = api::linear(x, w.w_ih, w.b_ih);
  if (!is_packed && is_one_operator(s, gates)) return lstm_steps(gates, initial, w.w_hh, reverse);
  const Tensor transposed = w.w_hh.t().contiguous();
  Tensors steps = is_packed ? gates.split(sizes, 0) : gates.unbind(0), outputs, state = initial;
  if (reverse) std::reverse(steps.begin(), steps.end());
  if (is_packed && reverse) {
    for (Tensor& one : state) one = one.narrow(0, 0, steps[0].size(0));
  }
  std::vector<Tensors> ended;
  for (const Tensor& one : steps) {
    if (is_packed) state = resized(std::move(state), initial, one.size(0), ended);
    state = step(s, one, state, transposed, w.b_hh);
    if (w.w_hr.defined()) state[0] = api::linear(state[0], w.w_hr);
    outputs.push_back(state[0]);
  }
  state = with_ended(std::move(state), ended);
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  state.insert(state.begin(), is_packed ? api::cat(outputs, 0) : api::stack(outputs, 0));
  return state;
}

Tensors zero_states(const RecurrentSettings& s, std::vector<int64_t> lead, const Tensor& like) {
  Tensors out;
  for (size_t i = 0; i < states_of(s.kind); ++i) {
    std::vector<int64_t> sizes = lead;
    sizes.push_back(i == 0 ? width_of(s) : s.hidden_size);
    out.push_back(api::zeros(sizes, like.options()));
  }
  return out;
}

void check_states(const RecurrentSettings& s, const Tensors& given, const Tensors& wanted) {
  for (size_t i = 0; i < given.size(); ++i) {
    check(given[i].sizes() == wanted[i].sizes(), name_of(s.kind), ": Expected hidden",
          s.kind == Recurrence::LSTM ? text_of("[", i, "]") : "", " size ", wanted[i].sizes(),
          ", got ", given[i].sizes());
  }
}

void check_input(const RecurrentSettings& s, const Tensors& weights, const Tensor& input) {
  check_value(input.dtype() == weights[0].dtype(), name_of(s.kind), ": expected input of dtype ",
              weights[0].dtype(), ", got ", input.dtype());
  check(input.size(-1) == s.input_size, name_of(s.kind), ": expected input_size=", s.input_size,
        " features, got ", input.size(-1));
}

// The sequences of the batch in another order; an undefined one keeps it.
Tensors reordered(Tensors states, const Tensor& order) {
  if (order.defined()) {
    for (Tensor& state : states) state = state.index_select(1, order);
  }
  return states;
}

// All layers, over the rows that `run_direction` takes.
Tensors run_layers(const RecurrentSettings& s, const Tensors& weights, Tensor x, IntArrayRef sizes,
                   const Tensors& initial, bool is_training) {
  std::vector<Tensors> finals(initial.size());
  for (int64_t layer = 0; layer < s.num_layers; ++layer) {
    Tensors outputs;
    for (int64_t direction = 0; direction < directions_of(s); ++direction) {
      const int64_t at = layer * directions_of(s) + direction;
      Tensors state;
      for (const Tensor& one : initial) state.push_back(one.select(0, at));
      const Tensors found = run_direction(
          s, x, sizes, state, weights_of(s, weights, static_cast<size_t>(at)), direction == 1);
      outputs.push_back(found[0]);
      for (size_t i = 0; i < finals.size(); ++i) finals[i].push_back(found[i + 1]);
    }
    x = outputs.size() == 1 ? outputs[0] : api::cat(outputs, -1);
    if (s.dropout > 0 && is_training && layer + 1 < s.num_layers)
      x = api::dropout(x, s.dropout, true);
  }
  Tensors out{x};
  for (const Tensors& final : finals) out.push_back(api::stack(final, 0));
  return out;
}

}  // namespace

NamedExtents recurrent_parameters(const RecurrentSettings& s) {
  check_settings(s);
  NamedExtents out;
  const int64_t gates = gates_of(s.kind) * s.hidden_size, width = width_of(s);
  for (int64_t layer = 0; layer < s.num_layers; ++layer) {
    for (int64_t direction = 0; direction < directions_of(s); ++direction) {
      const std::string suffix = text_of("_l", layer, direction == 1 ? "_reverse" : "");
      out.push_back(
          {"weight_ih" + suffix, {gates, layer == 0 ? s.input_size : width * directions_of(s)}});
      out.push_back({"weight_hh" + suffix, {gates, width}});
      if (s.bias) {
        out.push_back({"bias_ih" + suffix, {gates}});
        out.push_back({"bias_hh" + suffix, {gates}});
      }
      if (s.proj_size) out.push_back({"weight_hr" + suffix, {s.proj_size, s.hidden_size}});
    }
  }
  return out;
}

std::vector<Tensor> run_recurrent(const RecurrentSettings& s, const Tensors& weights,
                                  const Tensor& input, Tensors states, bool is_training) {
  check_rank(name_of(s.kind), input, {2, 3});
  const bool is_batched = input.dim() == 3;
  const int64_t time = s.batch_first ? 1 : 0;
  const Tensor x = is_batched ? input : input.unsqueeze(1 - time);
  if (!is_batched) {
    for (Tensor& state : states) state = state.unsqueeze(1);
  }
  check_input(s, weights, x);
  Tensors initial = zero_states(s, {s.num_layers * directions_of(s), x.size(1 - time)}, x);
  if (!states.empty()) {
    check_states(s, states, initial);
    initial = std::move(states);
  }
  Tensors found =
      run_layers(s, weights, time == 1 ? x.transpose(0, 1) : x, {}, initial, is_training);
  if (time == 1) found[0] = found[0].transpose(0, 1);
  if (!is_batched) {
    found[0] = found[0].squeeze(1 - time);
    for (size_t i = 1; i < found.size(); ++i) found[i] = found[i].squeeze(1);
  }
  return found;
}

std::pair<utils::rnn::PackedSequence, Tensors> run_packed(const RecurrentSettings& s,
                                                          const Tensors& weights,
                                                          const utils::rnn::PackedSequence& input,
                                                          Tensors states, bool is_training) {
  const Tensor& x = input.data();
  check(x.dim() == 2, name_of(s.kind), ": expected packed data of 2 dimensions, got ", x.dim());
  check_input(s, weights, x);
  const std::vector<int64_t> sizes = utils::rnn::step_sizes(input);
  Tensors initial = zero_states(s, {s.num_layers * directions_of(s), sizes.front()}, x);
  if (!states.empty()) {
    check_states(s, states, initial);
    initial = reordered(std::move(states), input.sorted_indices());
  }
  Tensors found = run_layers(s, weights, x, sizes, initial, is_training);
  const utils::rnn::PackedSequence output(found[0], input.batch_sizes(), input.sorted_indices(),
                                          input.unsorted_indices());
  found.erase(found.begin());
  return {output, reordered(std::move(found), input.unsorted_indices())};
}

NamedExtents cell_parameters(const RecurrentSettings& s) {
  check_settings(s);
  const int64_t gates = gates_of(s.kind) * s.hidden_size;
  NamedExtents out{{"weight_ih", {gates, s.input_size}}, {"weight_hh", {gates, s.hidden_size}}};
  if (s.bias) {
    out.push_back({"bias_ih", {gates}});
    out.push_back({"bias_hh", {gates}});
  }
  return out;
}

std::vector<Tensor> run_cell(const RecurrentSettings& s, const Tensors& weights,
                             const Tensor& input, Tensors states) {
  check_rank(text_of(name_of(s.kind), "Cell").c_str(), input, {1, 2});
  const bool is_batched = input.dim() == 2;
  const Tensor x = is_batched ? input : input.unsqueeze(0);
  if (states.empty()) {
    states = zero_states(s, {x.size(0)}, x);
  } else if (!is_batched) {
    for (Tensor& state : states) state = state.unsqueeze(0);
  }
  const Weights w = weights_of(s, weights, 0);
  Tensors found;
  if (s.kind == Recurrence::LSTM) {
    const auto [h, c] = api::lstm_cell(x, states, w.w_ih, w.w_hh, w.b_ih, w.b_hh);
    found = {h, c};
  } else {
    const auto cell = s.kind == Recurrence::GRU ? &api::gru_cell
                      : s.nonlinearity == kTanh ? &api::rnn_tanh_cell
                                                : &api::rnn_relu_cell;
    found = {cell(x, states[0], w.w_ih, w.w_hh, w.b_ih, w.b_hh)};
  }
  if (!is_batched) {
    for (Tensor& state : found) state = state.squeeze(0);
  }
  return found;
}

}  // namespace flambeau::api::nn
