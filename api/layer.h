#pragma once
// What generated layers (torchgen_out/api/modules.h) are made of: lists of sizes, initial values.
#include "api/module.h"

namespace flambeau::api {

// How a loss is reduced, by the numbers that operators take.
enum class Reduction : int64_t { None, Mean, Sum };
inline constexpr Reduction kNone = Reduction::None, kMean = Reduction::Mean, kSum = Reduction::Sum;

// A list of sizes.
class Extent {
 public:
  Extent(int64_t one) : list_{one} {}                            // NOLINT
  Extent(std::initializer_list<int64_t> list) : list_(list) {}   // NOLINT
  Extent(std::vector<int64_t> list) : list_(std::move(list)) {}  // NOLINT
  operator IntArrayRef() const { return list_; }                 // NOLINT
  const std::vector<int64_t>& vec() const { return list_; }

 private:
  std::vector<int64_t> list_;
};

// N sizes; one number stands for N equal ones.
template <size_t N>
class Extents {
 public:
  Extents(int64_t one) { list_.fill(one); }                     // NOLINT
  Extents(std::initializer_list<int64_t> list) { take(list); }  // NOLINT
  Extents(const std::vector<int64_t>& list) { take(list); }     // NOLINT
  operator IntArrayRef() const { return {list_.data(), N}; }    // NOLINT
  int64_t operator[](size_t i) const { return list_.at(i); }

 private:
  void take(IntArrayRef list) {
    check(list.size() == N, "torch::nn: expected ", N, " sizes, got ", list.size());
    std::copy(list.begin(), list.end(), list_.begin());
  }
  std::array<int64_t, N> list_{};
};
template <size_t N>
using ExpandingArray = Extents<N>;

namespace nn {

inline void append_extent(std::vector<int64_t>& out, int64_t size) { out.push_back(size); }
inline void append_extent(std::vector<int64_t>& out, IntArrayRef list) {
  out.insert(out.end(), list.begin(), list.end());
}
// The shape of a parameter: sizes, and lists of sizes.
template <typename... Parts>
std::vector<int64_t> extent_of(const Parts&... parts) {
  std::vector<int64_t> out;
  (append_extent(out, parts), ...);
  return out;
}

// ValueError unless `by` is positive and divides `size`.
int64_t divided(int64_t size, int64_t by);
// ValueError unless `input` has one of these numbers of dimensions.
void check_rank(const char* layer, const Tensor& input, std::initializer_list<int64_t> ranks);

// Initial values; undefined tensors are left alone.
namespace fill {
void kaiming(Tensor& weight);  // uniform on ±1 / sqrt(fan_in): He et al. 2015, with slope sqrt(5)
void fan_in(Tensor& bias, const Tensor& weight);  // uniform on ±1 / sqrt(fan_in of weight)
void normal(Tensor& t);
void ones(Tensor& t);
void zeros(Tensor& t);
void counter(Tensor& t);
void uniform_of_width(const std::vector<Tensor>& all, int64_t width);  // on ±1 / sqrt(width)
}  // namespace fill

}  // namespace nn
}  // namespace flambeau::api
