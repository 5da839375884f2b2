#pragma once
// Host arithmetic of the tensor-level expression language, with Python's meaning.
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "c10/core/scalar.h"
#include "c10/core/thread_state.h"

namespace flambeau::host {

// A fresh tensor as the argument of an in-place operator: it lives until the end of the full
// expression.
inline Tensor& lvalue(Tensor&& fresh) { return fresh; }
inline Tensor& lvalue(Tensor& written) { return written; }

inline const Tensor& value(const Tensor& option, std::string_view op, std::string_view name) {
  check(option.defined(), op, ": expected ", name, ", got None");
  return option;
}
template <typename T>
const T& value(const std::optional<T>& option, std::string_view op, std::string_view name) {
  check(option.has_value(), op, ": expected ", name, ", got None");
  return *option;
}
template <typename T>
bool has_value(const std::optional<T>& option) {
  return option.has_value();
}
inline bool has_value(const Tensor& option) { return option.defined(); }
inline bool has_value(const GeneratorImpl* generator) { return generator != nullptr; }

inline int64_t plus(int64_t a, int64_t b) { return sum_of("formula", a, b); }
inline int64_t minus(int64_t a, int64_t b) { return difference_of("formula", a, b); }
inline int64_t times(int64_t a, int64_t b) { return product_of("formula", a, b); }
inline int64_t negative(int64_t a) { return minus(0, a); }
inline int64_t floor_divide(int64_t a, int64_t b) {
  check(b != 0, "integer division by zero in an operator's formula");
  if (b == -1) return negative(a);  // the processor traps where it overflows
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline double floor_divide(double a, double b) { return std::floor(a / b); }
inline int64_t modulo(int64_t a, int64_t b) {
  check(b != 0, "integer division by zero in an operator's formula");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline double modulo(double a, double b) { return a - b * std::floor(a / b); }
inline double power(double a, double b) { return std::pow(a, b); }

template <typename T>
T minimum(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T maximum(T a, T b) {
  return a < b ? b : a;
}
template <typename T, typename... Rest>
T minimum(T a, T b, Rest... rest) {
  return minimum(minimum(a, b), rest...);
}
template <typename T, typename... Rest>
T maximum(T a, T b, Rest... rest) {
  return maximum(maximum(a, b), rest...);
}
inline int64_t minimum(IntArrayRef list) {
  check(!list.empty(), "min() of an empty list in an operator's formula");
  int64_t least = list[0];
  for (const int64_t v : list) least = v < least ? v : least;
  return least;
}
inline int64_t maximum(IntArrayRef list) {
  check(!list.empty(), "max() of an empty list in an operator's formula");
  int64_t most = list[0];
  for (const int64_t v : list) most = v > most ? v : most;
  return most;
}
inline int64_t absolute(int64_t a) { return a < 0 ? negative(a) : a; }
inline double absolute(double a) { return std::fabs(a); }
inline int64_t sum(IntArrayRef list) {
  int64_t total = 0;
  for (const int64_t v : list) total = plus(total, v);
  return total;
}
inline int64_t product(IntArrayRef list) {
  int64_t total = 1;
  for (const int64_t v : list) total = times(total, v);
  return total;
}

template <typename List>
int64_t length(const List& list) {
  return static_cast<int64_t>(list.size());
}
// The order in which permute moves dimensions `source` to `destination` and keeps the others'.
DimVector moved_dims(int64_t ndim, IntArrayRef source, IntArrayRef destination);
// In which order to multiply a chain of matrices, matrix i of sizes[i] rows and sizes[i + 1]
// columns, with the least multiplications (Cormen et al., Introduction to Algorithms,
// section 15.2): each number is the place in what is left of the chain of a matrix that is
// replaced, with the one behind it, by their product.
DimVector chain_order(IntArrayRef sizes);
inline int64_t wrap(int64_t dim, int64_t ndim) { return wrap_dim(dim, ndim); }
inline int64_t place(int64_t index, size_t size) {
  const auto n = static_cast<int64_t>(size);
  check_index(index >= -n && index < n, "index ", index, " is outside of a list of ", n);
  return index < 0 ? index + n : index;
}
template <typename List>
const auto& at(const List& list, int64_t index) {
  return list[static_cast<size_t>(place(index, list.size()))];
}

inline DimVector range(int64_t start, int64_t stop, int64_t step = 1) {
  check(step != 0, "range() with step 0 in an operator's formula");
  const int64_t count = step > 0 ? minus(stop, start) : minus(start, stop);
  DimVector out;
  for (int64_t i = start, left = count; left > 0; left -= absolute(step)) {
    out.push_back(i);
    if (left > absolute(step)) i += step;
  }
  return out;
}
inline DimVector range(int64_t stop) { return range(0, stop); }
template <typename List>
DimVector indices(const List& list) {
  return range(length(list));
}

// Lists of any type: join, repeat and slice.
template <typename T>
struct ListOf {
  using type = SmallVector<T, 5>;
};
template <>
struct ListOf<Tensor> {
  using type = std::vector<Tensor>;
};
template <typename T>
typename ListOf<T>::type join(ArrayRef<T> a, ArrayRef<T> b) {
  typename ListOf<T>::type out;
  for (const T& v : a) out.push_back(v);
  for (const T& v : b) out.push_back(v);
  return out;
}
// A list that a variable owns, of one that an expression owns or of a view of one.
template <typename List>
List held(List list) {
  return list;
}
template <typename List, typename T>
List held(ArrayRef<T> list) {
  List out;
  for (const T& v : list) out.push_back(v);
  return out;
}
template <typename List, typename More>
void extend(List& list, const More& more) {
  for (const auto& v : more) list.push_back(v);
}
template <typename T>
typename ListOf<T>::type repeat(ArrayRef<T> a, int64_t count) {
  typename ListOf<T>::type out;
  if (count > 0) out.reserve(static_cast<size_t>(times(count, static_cast<int64_t>(a.size()))));
  for (int64_t i = 0; i < count; ++i) {
    for (const T& v : a) out.push_back(v);
  }
  return out;
}
template <typename T>
typename ListOf<T>::type slice(ArrayRef<T> a, std::optional<int64_t> begin,
                               std::optional<int64_t> end) {
  const auto n = static_cast<int64_t>(a.size());
  const auto clip = [n](int64_t i) { return i < 0 ? (i + n < 0 ? 0 : i + n) : (i > n ? n : i); };
  typename ListOf<T>::type out;
  for (int64_t i = clip(begin.value_or(0)); i < clip(end.value_or(n)); ++i) {
    out.push_back(a[static_cast<size_t>(i)]);
  }
  return out;
}

inline bool contains(IntArrayRef list, int64_t item) {
  for (const int64_t v : list) {
    if (v == item) return true;
  }
  return false;
}

inline Scalar conj(const Scalar& s) { return s.conj(); }
inline double to_float(const Scalar& s) { return s.to_double(); }
inline int64_t to_int(const Scalar& s) { return s.to_int64(); }
inline ScalarType default_dtype() { return flambeau::default_dtype(); }
inline DimVector broadcast(IntArrayRef a, IntArrayRef b) { return broadcast_sizes(a, b); }
inline ScalarType promote(ScalarType a, ScalarType b) { return promote_types(a, b); }
inline ScalarType compute_dtype(ScalarType t) { return compute_type(t); }
inline std::string_view category(ScalarType t) {
  if (t == ScalarType::Bool) return "bool";
  return is_integral_type(t, false) ? "integral" : is_floating_type(t) ? "floating" : "complex";
}
inline std::string_view category(const Scalar& s) { return category(s.dtype()); }

inline ScalarType result_dtype(TensorList tensors) {
  TypePromotion promotion;
  for (const Tensor& t : tensors) promotion.add(t);
  return promotion.result();
}
// Whether autograd follows a tensor: it requires grad or carries a forward tangent.
inline bool in_graph(const Tensor& t) {
  return t.keys().has(DispatchKey::Autograd) && !t.impl()->is_inference();
}
inline bool grad_enabled() { return thread_state.grad_enabled; }
inline bool is_contiguous(const Tensor& t, MemoryFormat format) {
  check(format != MemoryFormat::Preserve, "contiguous: preserve_format names no order of memory");
  return t.is_contiguous(format);
}
inline bool has_view(const Tensor& t, IntArrayRef shape) {
  return view_strides(t.sizes(), t.strides(), flambeau::infer_size(shape, t.numel())).has_value();
}
inline DimVector infer_size(IntArrayRef shape, int64_t numel) {
  return flambeau::infer_size(shape, numel);
}
inline bool is_dense(const Tensor& t) { return t.impl()->is_non_overlapping_and_dense(); }
inline int64_t extent(IntArrayRef sizes, IntArrayRef strides) { return extent_of(sizes, strides); }
// A number as a tensor of no dimensions; fails where it does not fit. For meta tensors it is on the
// CPU, where it keeps its value: such a tensor joins those of other devices.
inline Tensor number_tensor(const Scalar& number, ScalarType dtype, Device device) {
  const Tensor made = empty_tensor({}, dtype, device.is_meta() ? Device(DeviceType::CPU) : device);
  fill_with(made, number);
  return made;
}
inline Tensor number_tensor(const Scalar& number, ScalarType dtype) {
  return number_tensor(number, dtype, DeviceType::CPU);
}
// The elements of an int64 tensor in row-major memory.
inline DimVector ints(const Tensor& t) {
  check(t.dtype() == ScalarType::Int64 && t.is_cpu() && t.is_contiguous(),
        "expected contiguous int64 elements on the CPU, got dtype ", t.dtype());
  const int64_t* elements = t.data_as<int64_t>();
  return DimVector(IntArrayRef(elements, static_cast<size_t>(t.numel())));
}
// Whether a tensor lies on a device; one without an index means any of its type.
inline bool is_on(const Tensor& t, Device device) {
  const Device own = t.device();
  return own.type == device.type && (device.index < 0 || own.index == device.index);
}

}  // namespace flambeau::host
