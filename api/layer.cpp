#include "api/layer.h"

#include <algorithm>
#include <cmath>

namespace flambeau::api::nn {

int64_t divided(int64_t size, int64_t by) {
  check_value(by > 0 && size % by == 0, "torch::nn: expected a number of groups that divides ",
              size, " channels, got ", by);
  return size / by;
}

void check_rank(const char* layer, const Tensor& input, std::initializer_list<int64_t> ranks) {
  if (std::find(ranks.begin(), ranks.end(), input.dim()) != ranks.end()) return;
  std::string wanted;
  for (const int64_t rank : ranks) wanted += (wanted.empty() ? "" : " or ") + std::to_string(rank);
  fail(ErrorKind::Value, layer, ": expected an input of ", wanted, " dimensions, got ",
       input.dim());
}

namespace fill {

namespace {

int64_t fan_in_of(const Tensor& weight) {
  int64_t fan = 1;
  for (int64_t d = 1; d < weight.dim(); ++d) fan *= weight.size(d);
  return fan;
}
void uniform(Tensor& t, double bound) {
  const NoGradGuard no_grad;
  t.uniform_(-bound, bound);
}

}  // namespace

// The bound is computed as in Python's nn.init, so that equal seeds give equal bits.
void kaiming(Tensor& weight) {
  const int64_t fan = fan_in_of(weight);
  if (weight.numel() == 0 || fan == 0) return;
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1 + slope * slope));
  uniform(weight, std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan))));
}
void fan_in(Tensor& bias, const Tensor& weight) {
  if (!bias.defined()) return;
  const int64_t fan = fan_in_of(weight);
  uniform(bias, fan > 0 ? 1 / std::sqrt(static_cast<double>(fan)) : 0);
}
void normal(Tensor& t) {
  const NoGradGuard no_grad;
  t.normal_();
}
void ones(Tensor& t) {
  const NoGradGuard no_grad;
  if (t.defined()) t.fill_(1);
}
void zeros(Tensor& t) {
  const NoGradGuard no_grad;
  if (t.defined()) t.zero_();
}
void counter(Tensor& t) { zeros(t); }
void uniform_of_width(const std::vector<Tensor>& all, int64_t width) {
  for (Tensor t : all) uniform(t, 1 / std::sqrt(static_cast<double>(width)));
}

}  // namespace fill

}  // namespace flambeau::api::nn
