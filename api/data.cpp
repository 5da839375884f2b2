#include "api/data.h"

#include <algorithm>
#include <numeric>

namespace flambeau::api::data::samplers {

std::optional<std::vector<size_t>> Sampler::next(size_t count) {
  if (at_ >= order_.size()) return std::nullopt;
  const size_t end = std::min(order_.size(), at_ + count);
  std::vector<size_t> part;
  for (; at_ < end; ++at_) part.push_back(order_[at_]);
  return part;
}

SequentialSampler::SequentialSampler(size_t size) {
  order_.resize(size);
  std::iota(order_.begin(), order_.end(), size_t{0});
}

void RandomSampler::reset() {
  const Tensor order = api::randperm(size_, nullptr, kLong);
  const int64_t* first = order.data_ptr<int64_t>();
  order_.assign(first, first + size_);
  at_ = 0;
}

}  // namespace flambeau::api::data::samplers
