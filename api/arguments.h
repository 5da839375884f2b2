#pragma once
// Between the types of the public interface and those of operators, for generated calls.
#include <tuple>

#include "api/types.h"
#include "aten/autograd/variable.h"

namespace flambeau::api {

// An optional Tensor as an operator takes it.
class MaybeTensor {
 public:
  MaybeTensor() = default;
  MaybeTensor(std::nullopt_t) {}                                    // NOLINT
  MaybeTensor(const flambeau::Tensor& tensor) : tensor_(tensor) {}  // NOLINT
  template <typename T>
  MaybeTensor(const std::optional<T>& tensor) {  // NOLINT(google-explicit-constructor)
    if (tensor) tensor_ = *tensor;
  }
  operator const flambeau::Tensor&() const { return tensor_; }  // NOLINT

 private:
  flambeau::Tensor tensor_;
};

// A list of Tensors, of the public class or the library's, as an operator takes it.
class TensorArgs {
 public:
  TensorArgs(flambeau::TensorList list) : list_(list) {}                      // NOLINT
  TensorArgs(const flambeau::Tensor& one) : list_(one) {}                     // NOLINT
  TensorArgs(const std::initializer_list<flambeau::Tensor>& l) : list_(l) {}  // NOLINT
  template <typename T>
    requires std::is_base_of_v<flambeau::Tensor, T>
  TensorArgs(const std::vector<T>& list) : list_(over(list.data(), list.size())) {}  // NOLINT
  template <typename T>
    requires std::is_base_of_v<flambeau::Tensor, T>
  TensorArgs(ArrayRef<T> list) : list_(over(list.data(), list.size())) {}  // NOLINT
  operator flambeau::TensorList() const { return list_; }                  // NOLINT

 private:
  // The public class adds functions only.
  template <typename T>
  static flambeau::TensorList over(const T* data, size_t size) {
    static_assert(sizeof(T) == sizeof(flambeau::Tensor));
    return {data, size};
  }

  flambeau::TensorList list_;
};

// An optional list of integers, or one of them, as an operator takes it.
class MaybeInts {
 public:
  MaybeInts() = default;
  MaybeInts(std::nullopt_t) {}                                            // NOLINT
  MaybeInts(IntArrayRef list) : list_(list) {}                            // NOLINT
  MaybeInts(const std::optional<IntArrayRef>& list) : list_(list) {}      // NOLINT
  MaybeInts(const std::vector<int64_t>& list) : list_(list) {}            // NOLINT
  MaybeInts(const std::initializer_list<int64_t>& list) : list_(list) {}  // NOLINT
  template <typename T>
    requires std::is_integral_v<T>
  MaybeInts(T one) : one_(one), is_one_(true) {}  // NOLINT
  operator std::optional<IntArrayRef>() const {   // NOLINT
    return is_one_ ? std::optional<IntArrayRef>(one_) : list_;
  }

 private:
  std::optional<IntArrayRef> list_;
  int64_t one_ = 0;
  bool is_one_ = false;
};

// An optional generator as an operator takes it.
class MaybeGenerator {
 public:
  MaybeGenerator() = default;
  MaybeGenerator(std::nullopt_t) {}                                          // NOLINT
  MaybeGenerator(Generator generator) : generator_(std::move(generator)) {}  // NOLINT
  MaybeGenerator(c10::GeneratorImpl* generator)                              // NOLINT
      : generator_(Generator::share(generator)) {}
  MaybeGenerator(const std::optional<Generator>& generator)  // NOLINT
      : generator_(generator.value_or(Generator())) {}
  operator c10::GeneratorImpl*() const { return generator_.get(); }  // NOLINT

 private:
  Generator generator_;
};

// In-place operators change what a Tensor refers to, which a const handle allows.
inline flambeau::Tensor& unchanging(const flambeau::Tensor& t) {
  return const_cast<flambeau::Tensor&>(t);
}

// Results of operators with the public class in the place of the library's.
struct LiftedList {
  std::vector<flambeau::Tensor> list;
  template <typename T>
  operator std::vector<T>() && {  // NOLINT(google-explicit-constructor)
    return std::vector<T>(std::make_move_iterator(list.begin()),
                          std::make_move_iterator(list.end()));
  }
};
inline LiftedList lifted(std::vector<flambeau::Tensor> list) { return {std::move(list)}; }
template <typename T>
T lifted(T&& result) {
  return static_cast<T&&>(result);
}
template <typename... Ts>
auto lifted(std::tuple<Ts...> results) {
  return std::apply([](auto&... each) { return std::tuple(lifted(static_cast<Ts&&>(each))...); },
                    results);
}
template <typename... Ts>
std::tuple<Ts&...> lifted(std::tuple<Ts&...> results) {
  return results;
}

// A fresh tensor as a leaf that requires a gradient, if the options say so.
template <typename T>
T as_asked(T&& fresh, const TensorOptions& options) {
  if (options.requires_grad()) autograd::set_requires_grad(fresh, true);
  return static_cast<T&&>(fresh);
}

}  // namespace flambeau::api
