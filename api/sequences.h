#pragma once
// torch::nn::utils::rnn: sequences of different lengths, padded to one tensor or packed without
// padding.
#include <string_view>
#include <tuple>

#include "api/namespaces.h"

namespace flambeau::api::nn::utils::rnn {

// The permutation that undoes another one; undefined for an undefined one.
Tensor invert_permutation(const Tensor& permutation);

// A batch of sequences step by step, the longest sequence first: `data` has the elements of step 0,
// then those of step 1, and so on. Recurrent layers take it by `forward_with_packed_input`.
class PackedSequence {
 public:
  // `batch_sizes` is the number of sequences that have each step. `sorted_indices` is the sequence
  // of the batch at each place; undefined: all keep their places. Undefined `unsorted_indices` are
  // computed from it. ValueError for undefined `data`, or `batch_sizes` that are not on the
  // CPU.
  explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {},
                          Tensor unsorted_indices = {});

  const Tensor& data() const { return data_; }
  const Tensor& batch_sizes() const { return batch_sizes_; }
  const Tensor& sorted_indices() const { return sorted_indices_; }
  const Tensor& unsorted_indices() const { return unsorted_indices_; }

  // With `data` in another dtype or on another device; `batch_sizes` stays on the CPU.
  PackedSequence to(const TensorOptions& options) const;
  PackedSequence cpu() const { return to(kCPU); }
  PackedSequence cuda() const { return to(kCUDA); }
  bool is_cuda() const { return data_.device().type() == kCUDA; }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

// The numbers in `batch_sizes`. RuntimeError unless they are int64, above 0, do not rise, and have
// as sum the rows of `data`.
std::vector<int64_t> step_sizes(const PackedSequence& sequence);

// Packs (time, batch, *), or (batch, time, *) with `batch_first`. RuntimeError for lengths below 1,
// beyond the padded time, or rising with `enforce_sorted`; without it, sequences are sorted first.
PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first = false,
                                    bool enforce_sorted = true);
// The inverse: the padded batch and the lengths. ValueError if `total_length` is less than the
// longest length.
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence,
                                               bool batch_first = false, double padding_value = 0,
                                               std::optional<int64_t> total_length = std::nullopt);
// Stacks sequences (length, *), padded to the longest one at `padding_side`, "right" or "left".
Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0,
                    std::string_view padding_side = "right");
PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true);

}  // namespace flambeau::api::nn::utils::rnn
