// Moves elements by the operators of python/flambeau/nn/utils/rnn.py.
#include "api/sequences.h"

#include <algorithm>
#include <numeric>

namespace flambeau::api::nn::utils::rnn {

namespace {

using Sizes = std::vector<int64_t>;

Sizes integers_of(const Tensor& t) {
  const Tensor dense = t.contiguous();
  const int64_t* const first = dense.const_data_ptr<int64_t>();
  return {first, first + dense.numel()};
}

Tensor tensor_of(const Sizes& numbers) { return api::tensor(ArrayRef<int64_t>(numbers)); }

// Adds rows of `value` before and after those of `t`.
Tensor with_rows_around(const Tensor& t, int64_t front, int64_t behind, double value) {
  Sizes around(static_cast<size_t>(2 * (t.dim() - 1)), 0);
  around.push_back(front);
  around.push_back(behind);
  return api::constant_pad_nd(t, around, value);
}

// How many of the falling `counts` are above each number from 0 up to the largest one.
Sizes conjugate(const Sizes& counts) {
  Sizes out;
  size_t above = counts.size();
  for (int64_t step = 0; step < counts.front(); ++step) {
    while (counts[above - 1] <= step) --above;
    out.push_back(static_cast<int64_t>(above));
  }
  return out;
}

void check_lengths(const Sizes& counts, const Tensor& padded) {
  check(!counts.empty() && *std::min_element(counts.begin(), counts.end()) > 0,
        "pack_padded_sequence: expected lengths greater than 0, got ", IntArrayRef(counts));
  check(static_cast<int64_t>(counts.size()) == padded.size(1),
        "pack_padded_sequence: expected len(lengths) equal to batch_size ", padded.size(1),
        ", got ", counts.size());
  check(std::is_sorted(counts.rbegin(), counts.rend()),
        "pack_padded_sequence: expected lengths sorted in decreasing order, or "
        "enforce_sorted=false, got ",
        IntArrayRef(counts));
  check(counts.front() <= padded.size(0), "pack_padded_sequence: expected lengths up to ",
        padded.size(0), ", the padded time, got ", counts.front());
}

void check_sequences(const char* name, ArrayRef<Tensor> sequences) {
  check(!sequences.empty(), name, ": expected one sequence or more, got none");
  for (const Tensor& one : sequences) {
    check(one.defined() && one.dim() > 0, name, ": expected sequences of 1 dimension or more, got ",
          one.defined() ? "a tensor of 0" : "an undefined tensor");
  }
}

}  // namespace

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  const Tensor places = api::arange(permutation.numel(), permutation.options());
  return api::empty_like(permutation).scatter_(0, permutation, places);
}

PackedSequence::PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices,
                               Tensor unsorted_indices)
    : data_(std::move(data)),
      batch_sizes_(std::move(batch_sizes)),
      sorted_indices_(std::move(sorted_indices)),
      unsorted_indices_(std::move(unsorted_indices)) {
  check_value(data_.defined(), "PackedSequence: expected data, got an undefined tensor");
  check_value(batch_sizes_.defined() && batch_sizes_.device().type() == kCPU,
              "PackedSequence: expected batch_sizes on the CPU, got ",
              batch_sizes_.defined() ? batch_sizes_.device().str() : "an undefined tensor");
  if (!unsorted_indices_.defined()) unsorted_indices_ = invert_permutation(sorted_indices_);
}

PackedSequence PackedSequence::to(const TensorOptions& options) const {
  const Tensor data = data_.to(options);
  if (data.impl() == data_.impl()) return *this;
  const auto moved = [&](const Tensor& order) {
    return order.defined() ? order.to(data.device()) : order;
  };
  return PackedSequence(data, batch_sizes_, moved(sorted_indices_), moved(unsorted_indices_));
}

std::vector<int64_t> step_sizes(const PackedSequence& sequence) {
  const Tensor& given = sequence.batch_sizes();
  check(given.dtype() == kInt64 && given.dim() == 1,
        "PackedSequence: expected batch_sizes of dtype Long and 1 dimension, got ", given.dtype(),
        " and ", given.dim());
  const Sizes sizes = integers_of(given);
  check(!sizes.empty() && sizes.back() > 0 && std::is_sorted(sizes.rbegin(), sizes.rend()),
        "PackedSequence: expected batch_sizes above 0 that do not rise, got ", IntArrayRef(sizes));
  const int64_t rows = sequence.data().dim() == 0 ? 0 : sequence.data().size(0);
  int64_t rest = rows;
  for (const int64_t size : sizes) rest -= std::min(size, rest + 1);
  check(rest == 0, "PackedSequence: expected data of as many rows as the sum of batch_sizes ",
        IntArrayRef(sizes), ", got ", rows);
  return sizes;
}

PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first,
                                    bool enforce_sorted) {
  check(input.defined() && input.dim() >= 2,
        "pack_padded_sequence: expected an input of 2 dimensions or more, got ",
        input.defined() ? input.dim() : 0);
  check(lengths.defined() && lengths.dim() == 1 && lengths.device().type() == kCPU,
        "pack_padded_sequence: expected lengths as a 1D CPU tensor, got ",
        lengths.defined() ? text_of(lengths.dim(), "D on ", lengths.device().str())
                          : "an undefined tensor");
  lengths = lengths.to(kInt64);
  Tensor order;
  if (!enforce_sorted) {
    std::tie(lengths, order) = lengths.sort(int64_t{0}, true);
    order = order.to(input.device());
    check(order.numel() == input.size(batch_first ? 0 : 1),
          "pack_padded_sequence: expected len(lengths) equal to batch_size ",
          input.size(batch_first ? 0 : 1), ", got ", order.numel());
    input = input.index_select(batch_first ? 0 : 1, order);
  }
  const Tensor padded = batch_first ? input.transpose(0, 1) : input;
  const Sizes counts = integers_of(lengths);
  check_lengths(counts, padded);
  const Sizes sizes = conjugate(counts);
  std::vector<Tensor> rows;
  for (size_t step = 0; step < sizes.size(); ++step)
    rows.push_back(padded.select(0, static_cast<int64_t>(step)).narrow(0, 0, sizes[step]));
  return PackedSequence(api::cat(rows), tensor_of(sizes), order);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length) {
  const Sizes sizes = step_sizes(sequence);
  const auto longest = static_cast<int64_t>(sizes.size());
  const int64_t time = total_length.value_or(longest);
  check_value(time >= longest, "pad_packed_sequence: expected total_length of ", longest,
              " or more, got ", time);
  std::vector<Tensor> steps;
  for (const Tensor& step : sequence.data().split(sizes, 0)) {
    const int64_t missing = sizes.front() - step.size(0);
    steps.push_back(with_rows_around(step, 0, missing, padding_value));
  }
  Tensor padded = with_rows_around(api::stack(steps), 0, time - longest, padding_value);
  Tensor lengths = tensor_of(conjugate(sizes));
  if (const Tensor& order = sequence.unsorted_indices(); order.defined()) {
    padded = padded.index_select(1, order);
    lengths = lengths.index_select(0, order.to(kCPU));
  }
  return {batch_first ? padded.transpose(0, 1) : padded, lengths};
}

Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  check(padding_side == "left" || padding_side == "right",
        "pad_sequence: expected padding_side 'left' or 'right', got '", padding_side, "'");
  check_sequences("pad_sequence", sequences);
  int64_t longest = 0;
  for (const Tensor& one : sequences) longest = std::max(longest, one.size(0));
  std::vector<Tensor> rows;
  for (const Tensor& one : sequences) {
    const int64_t missing = longest - one.size(0);
    const bool is_left = padding_side == "left";
    rows.push_back(
        with_rows_around(one, is_left ? missing : 0, is_left ? 0 : missing, padding_value));
  }
  return api::stack(rows, batch_first ? 0 : 1);
}

PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted) {
  check_sequences("pack_sequence", sequences);
  Sizes lengths;
  for (const Tensor& one : sequences) lengths.push_back(one.size(0));
  return pack_padded_sequence(pad_sequence(sequences), tensor_of(lengths), false, enforce_sorted);
}

}  // namespace flambeau::api::nn::utils::rnn
