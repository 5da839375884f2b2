#pragma once
// Infix operators between Tensors and numbers, indices, and printing.
#include <iosfwd>

#include "torchgen_out/api/functions.h"

namespace flambeau::api {

template <typename T>
concept Number = std::is_convertible_v<T, Scalar> && !std::is_base_of_v<flambeau::Tensor, T>;

#define FLAMBEAU_INFIX(symbol, method, reflected)                                         \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return a.method(b); } \
  template <Number T>                                                                     \
  Tensor operator symbol(const Tensor& a, const T& b) {                                   \
    return a.method(Scalar(b));                                                           \
  }                                                                                       \
  template <Number T>                                                                     \
  Tensor operator symbol(const T& a, const Tensor& b) {                                   \
    return reflected;                                                                     \
  }
FLAMBEAU_INFIX(+, add, b.add(Scalar(a)))
FLAMBEAU_INFIX(-, sub, b.neg().add(Scalar(a)))
FLAMBEAU_INFIX(*, mul, b.mul(Scalar(a)))
FLAMBEAU_INFIX(/, div, b.reciprocal().mul(Scalar(a)))
FLAMBEAU_INFIX(%, remainder, api::remainder(Scalar(a), b))
FLAMBEAU_INFIX(==, eq, b.eq(Scalar(a)))
FLAMBEAU_INFIX(!=, ne, b.ne(Scalar(a)))
FLAMBEAU_INFIX(<, lt, b.gt(Scalar(a)))
FLAMBEAU_INFIX(<=, le, b.ge(Scalar(a)))
FLAMBEAU_INFIX(>, gt, b.lt(Scalar(a)))
FLAMBEAU_INFIX(>=, ge, b.le(Scalar(a)))
FLAMBEAU_INFIX(&, bitwise_and, b.bitwise_and(Scalar(a)))
FLAMBEAU_INFIX(|, bitwise_or, b.bitwise_or(Scalar(a)))
FLAMBEAU_INFIX(^, bitwise_xor, b.bitwise_xor(Scalar(a)))
#undef FLAMBEAU_INFIX

namespace indexing {

enum class EllipsisIndexType { Ellipsis };
inline constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
inline constexpr std::nullopt_t None = std::nullopt;

struct Slice {
  explicit Slice(std::optional<int64_t> start = std::nullopt,
                 std::optional<int64_t> stop = std::nullopt,
                 std::optional<int64_t> step = std::nullopt)
      : start(start), stop(stop), step(step.value_or(1)) {}
  std::optional<int64_t> start, stop;
  int64_t step;
};

}  // namespace indexing

// One index: None, "...", an integer, a Slice, a bool or a Tensor.
struct TensorIndex {
  enum class Kind : uint8_t { None, Ellipsis, Integer, Slice, Tensor };

  TensorIndex(std::nullopt_t) : kind(Kind::None) {}                              // NOLINT
  TensorIndex(indexing::EllipsisIndexType) : kind(Kind::Ellipsis) {}             // NOLINT
  TensorIndex(const char* dots);                                                 // NOLINT
  TensorIndex(indexing::Slice s) : kind(Kind::Slice), slice(s) {}                // NOLINT
  TensorIndex(flambeau::Tensor t) : kind(Kind::Tensor), tensor(std::move(t)) {}  // NOLINT
  template <typename T>
    requires std::is_integral_v<T>
  TensorIndex(T i) : kind(Kind::Integer), integer(i) {  // NOLINT
    if constexpr (std::is_same_v<T, bool>) {
      kind = Kind::Tensor;
      tensor = scalar_tensor(i, kBool);
    }
  }

  Kind kind;
  int64_t integer = 0;
  indexing::Slice slice{};
  flambeau::Tensor tensor;
};

std::ostream& operator<<(std::ostream& out, const Tensor& t);
std::ostream& operator<<(std::ostream& out, ScalarType t);
std::ostream& operator<<(std::ostream& out, const Device& d);
std::ostream& operator<<(std::ostream& out, IntArrayRef list);
void print(const Tensor& t);

// A tensor over memory of the caller's, which `deleter(data)` gives back with the last view.
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, void (*deleter)(void*),
                 const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                 const TensorOptions& options = {});

// A tensor of numbers: torch::tensor({1.0, 2.0}).
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}) {
  const Tensor made = empty({static_cast<int64_t>(values.size())}, CppTypeToScalarType<T>::value);
  std::copy(values.begin(), values.end(), static_cast<T*>(made.data_ptr()));
  const bool is_double = std::is_same_v<T, double> && !options.has_dtype();
  return as_asked(made.to(is_double ? TensorOptions(c10::default_dtype()).device(options.device())
                                    : options.requires_grad(std::nullopt)),
                  options);
}
template <typename T>
Tensor tensor(const std::initializer_list<T>& values, const TensorOptions& options = {}) {
  if constexpr (std::is_same_v<T, int>) {
    return tensor(ArrayRef<int64_t>(std::vector<int64_t>(values)), options);
  } else {
    return tensor(ArrayRef<T>(values), options);
  }
}
template <typename T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <Number T>
Tensor tensor(T value, const TensorOptions& options = {}) {
  const c10::ScalarType type = options.dtype_opt().value_or(Scalar(value).dtype());
  return as_asked(
      scalar_tensor(Scalar(value), type, std::nullopt, options.device_opt(), std::nullopt),
      options);
}

}  // namespace flambeau::api
